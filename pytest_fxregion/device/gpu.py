"""Is there a GPU, and could this torch use it?  Asked without importing torch."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path


def count_gpus() -> int:
    """Return how many GPUs the CUDA driver sees, 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def torch_is_built_for_cuda() -> bool:
    """Whether the installed torch has CUDA kernels, judged by the libraries that it ships."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    return (Path(found.origin).parent / "lib" / "libtorch_cuda.so").exists()
