"""Private names of torch for code that dynamo is to leave alone; importing this needs no dynamo.

Apart from :mod:`pytest_fxregion._torch`, which costs seconds, for :func:`pytest_fxregion.region`.
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
