"""Triton's interpreter, made complete and quick enough to run what Inductor writes.

Comes in: kernels under ``TRITON_INTERPRET=1``.  Goes out: the same kernels, run over the whole grid
in numpy, with the functions of libdevice that the interpreter lacks.  :func:`interpreting` puts it
in place and takes it away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["interpreting"]


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Run kernels that are started inside the block by the batched interpreter."""
    from triton.language.extra import libdevice as declared
    from triton.runtime import interpreter

    from pytest_fxregion.device.virtual._replaced import Replacements
    from pytest_fxregion.device.virtual.interpreter import builder, grid, libdevice

    with Replacements() as replaced:
        replaced.set(interpreter.interpreter_builder, "__class__", builder.GridBuilder)
        replaced.set(interpreter, "GridExecutor", grid.GridExecutor)
        replaced.set(interpreter.InterpretedFunction, "__call__", grid.call_device_function)
        for name, function in libdevice.functions().items():
            replaced.set(declared, name, function)
        yield
