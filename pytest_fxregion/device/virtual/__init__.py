"""A CUDA device whose memory is host memory, for machines without a GPU.

Comes in: the name of an architecture.  Goes out: a context in which ``cuda:0`` exists, user code
for CUDA runs unchanged, Inductor lowers for that architecture and Triton's interpreter executes its
kernels.  Importing this package imports neither torch nor triton.

What differs from a GPU and is not an error: operators outside of kernels are the CPU's arithmetic;
their random numbers are another stream (those that Triton kernels draw are the same); recurrent
layers and CTC loss run without cuDNN; kernels run in one configuration, without contraction of
mul and add, TF32 or approximate functions, and all programs of a grid at once, so that races are
not seen.  What has no meaning here (time, CUDA graphs, inline PTX beyond single instructions,
programs that wait for each other, NCCL, sparse layouts) raises
:class:`~pytest_fxregion.errors.DeviceError`.

:func:`load` first, before anything imports torch; then :func:`activate` around each test.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from pytest_fxregion.device.virtual import build, loader
from pytest_fxregion.device.virtual.architectures import ARCHITECTURES, Architecture
from pytest_fxregion.errors import DeviceError

__all__ = ["ARCHITECTURES", "Architecture", "activate", "is_loaded", "load", "unavailable"]

is_loaded = loader.is_loaded


def load(progress: Callable[[str], None] | None = None) -> None:
    """Bring the device into this process; before torch is imported.  It stays inactive.

    Builds the native library if this torch has none yet (about 30 s, told to ``progress`` in one
    line) and imports torch.  Raises :class:`~pytest_fxregion.errors.DeviceError` with the reason
    and the compiler's command when that cannot be done.
    """
    loader.load(progress)


@contextlib.contextmanager
def activate(arch: str) -> Iterator[None]:
    """Make ``torch.cuda`` a GPU of the named architecture inside the block.

    Raises :class:`~pytest_fxregion.errors.DeviceError` for an unknown name or before :func:`load`.
    """
    if arch not in ARCHITECTURES:
        raise DeviceError(f"no architecture {arch!r}; there are {', '.join(ARCHITECTURES)}")
    loader.library()
    from pytest_fxregion.device.virtual import answers

    with answers.activate(ARCHITECTURES[arch]):
        yield


def unavailable() -> str | None:
    """Why the device can't be used on this machine, or ``None``; cheap, builds nothing."""
    if loader.is_loaded():
        return None
    if not sys.platform.startswith("linux"):
        return "the virtual CUDA device needs Linux"
    try:
        torch = build.torch_folder()
    except DeviceError as error:
        return str(error)
    version = build.torch_build(torch).split()[0]
    major, minor = (int(part) for part in version.split(".")[:2])
    if not (2, 11) <= (major, minor) <= (2, 15):
        return f"the virtual CUDA device supports torch 2.11 to 2.15, not {version}"
    if build.compiler() is None:
        return "the virtual CUDA device needs a C++ compiler (g++, clang++ or CXX)"
    if not build.has_triton():
        return "the virtual CUDA device needs Triton, which is not installed"
    return None
