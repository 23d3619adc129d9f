"""Brings the native library into the process, at the one moment when that can be done.

torch looks its CUDA hooks up once, at their first use; the library registers them and so has to be
there before ``import torch``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from pytest_fxregion.device.virtual import build, refusal
from pytest_fxregion.errors import DeviceError

_library: ctypes.CDLL | None = None
_kept: list[object] = []


def is_loaded() -> bool:
    """Whether this process has the virtual device (active or not)."""
    return _library is not None


def library() -> ctypes.CDLL:
    """The loaded native library.  Raises :class:`DeviceError` before :func:`load`."""
    if _library is None:
        raise DeviceError(
            "the virtual CUDA device is not loaded in this process: "
            "pytest_fxregion.device.virtual.load() has to run before torch is imported"
        )
    return _library


def load(progress: Callable[[str], None] | None = None) -> None:
    """Build the library if need be, load it, and import torch on top of it.

    ``progress`` is told, in one line, when something has to be built.  Raises
    :class:`DeviceError` when torch was imported too early, saying by whom, and when the library
    cannot be built or loaded.  Does nothing the second time.
    """
    global _library
    if _library is not None:
        return
    _refuse_if_torch_is_imported()
    path = build.build(progress)
    libraries = build.torch_folder() / "lib"
    # A GPU that is there would be found by torch outside of the tests, where there is to be none.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        for name in ("libc10.so", "libtorch_cpu.so"):
            ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)
        _load_own_cuda(libraries)
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise DeviceError(
            f"the virtual CUDA library {path} cannot be loaded: {error}. "
            "If torch was reinstalled, remove that file; it will be built again."
        ) from error
    importlib.import_module("torch")
    # After torch: a CUDA build registers its own guard and kernels while it is imported.
    loaded.fxregion_virtual_install.restype = ctypes.c_char_p
    refused = loaded.fxregion_virtual_install()
    if refused is not None:
        raise DeviceError(
            "this torch does not take the virtual CUDA device's operators: "
            + refused.decode(errors="replace")
        )
    loaded.fxregion_virtual_memory.restype = ctypes.c_int64
    _kept.append(refusal.install())
    _library = loaded


def _load_own_cuda(libraries: Path) -> None:
    """Load the CUDA half of a CUDA build, for our hooks to take the place of its own.

    Where its dependencies are not found this way, importing torch finds them or says what is
    missing; its hooks then come too late, which c10 says on standard error.
    """
    if (libraries / "libtorch_cuda.so").exists():
        with contextlib.suppress(OSError):
            for name in ("libtorch_global_deps.so", "libtorch_cuda.so"):
                ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)


def _refuse_if_torch_is_imported() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        raise DeviceError(
            "the virtual CUDA device has to be loaded before torch is imported, and torch is "
            f"already here{_blame(torch)}. Import it later (inside a function or a test), or start "
            "with `-p pytest_fxregion.plugin`, or use --fxregion-device=cpu."
        )


def _blame(imported: ModuleType) -> str:
    """Which modules hold a reference to an imported module: those that imported it first."""
    root = imported.__name__
    holders = [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != root
        and not name.startswith("pytest_fxregion")
        and any(value is imported for value in list(getattr(module, "__dict__", {}).values()))
    ]
    if not holders:
        return ""
    # sys.modules keeps the order in which imports began.
    first = holders[0]
    place = getattr(sys.modules[first], "__file__", None)
    return f" (imported by {first}{f', {place}' if place else ''})"
