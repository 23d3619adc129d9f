"""Code that dynamo is to leave alone.  Unlike the modules beside it, this one needs no dynamo.

For :func:`pytest_fxregion.region`, which files import that compile nothing.
"""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar, cast

# How dynamo's hook on Python frames takes a code object, 2.11 to 2.15.
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

# The hook of this thread: something to call in a call of what `torch.compile` gave, and no such
# thing in what dynamo leaves alone there. 2.11 to 2.15.
from torch._C._dynamo.eval_frame import get_eval_frame_callback as dynamos_hook

__all__ = ["dynamos_hook", "never_compiled_alone", "never_compiled_itself"]

_Function = TypeVar("_Function")


def never_compiled_alone(function: _Function) -> _Function:
    """Have dynamo run the function, and what it calls, as it is where no frame around it is traced.

    Inside of a frame that is traced it is traced with it, as any other.
    """
    return _left_alone(function, _FrameAction.SKIP)


def never_compiled_itself(function: _Function) -> _Function:
    """The same, but for what it calls; :func:`dynamos_hook` is that of its caller."""
    return _left_alone(function, _FrameAction.DEFAULT)


def _left_alone(function: _Function, what_it_calls: _FrameAction) -> _Function:
    strategy = _FrameExecStrategy(_FrameAction.SKIP, what_it_calls)
    set_code_exec_strategy(cast(FunctionType, function).__code__, strategy)
    return function
