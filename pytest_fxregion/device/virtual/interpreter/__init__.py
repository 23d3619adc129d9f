"""Triton's interpreter, made complete and quick enough to run what Inductor writes.

Comes in: kernels as ``@triton.jit`` made them.  Goes out: what they do to memory, computed in
numpy over the whole grid at once, with the functions of libdevice that the interpreter lacks.
:func:`interpreting` puts it in place and takes it away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["interpreting"]


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Run kernels that are started inside the block by the batched interpreter."""
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from pytest_fxregion.device.virtual._replaced import Replacements
    from pytest_fxregion.device.virtual.interpreter import builder, grid

    with Replacements() as replaced:
        replaced.set(interpreter.interpreter_builder, "__class__", builder.GridBuilder)
        replaced.set(JITFunction, "run", grid.run_kernel)
        replaced.set(JITFunction, "__call__", grid.call_jit_function)
        replaced.set(interpreter, "GridExecutor", grid.GridExecutor)
        replaced.set(interpreter.InterpretedFunction, "__call__", grid.call_interpreted_function)
        # All configurations take equally long, so the first one is used.
        replaced.set(Autotuner, "_bench", lambda self, *args, config, **meta: [1.0, 1.0, 1.0])
        yield
