"""Code that dynamo is to leave alone.  Unlike the modules beside it, this one needs no dynamo.

For :func:`pytest_fxregion.region`, which files import that compile nothing.
"""

from __future__ import annotations

from types import FunctionType

# How dynamo's hook on Python frames takes a code object, 2.11 to 2.15.
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy


def never_compiled_alone(function: FunctionType) -> FunctionType:
    """Have dynamo run the function, and what it calls, as it is where no frame around it is traced.

    Inside of a frame that is traced it is traced with it, as any other.
    """
    whole = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    set_code_exec_strategy(function.__code__, whole)
    return function
