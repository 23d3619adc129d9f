"""Whether there is a GPU, whether this torch can use it, and which one is an xdist worker's.

Asked without importing torch, which costs seconds, and without initialising CUDA in this process,
which would fix the devices it sees before a worker has been given its own.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def count_gpus() -> int:
    """Return how many GPUs the CUDA driver shows to this process, 0 where there is no driver.

    The driver is asked in a process of its own.
    """
    if not _has_driver():
        return 0
    asked = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    return int(asked.stdout) if asked.returncode == 0 else 0


def count_in_this_process() -> int:
    """Return how many GPUs there are; initialises CUDA here, which fixes what it can see."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def torch_is_built_for_cuda() -> bool:
    """Whether the installed torch has CUDA kernels, judged by the libraries that it ships."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    return (Path(found.origin).parent / "lib" / "libtorch_cuda.so").exists()


def take_one_of_several() -> None:
    """Show this xdist worker one GPU only, another one than its neighbours'.

    It is ``cuda:0`` in every worker, so that snapshots do not depend on which worker a test ran in.
    Call it before CUDA is initialised.  Does nothing outside of a worker.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and count_gpus() > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu_of_worker(worker, visible, count_gpus())


def gpu_of_worker(worker: str, visible: str | None, count: int) -> str:
    """Return what ``CUDA_VISIBLE_DEVICES`` is to be in ``worker`` (``gw3``), of ``count`` GPUs.

    ``visible`` is what it is now.
    """
    number = int(worker.removeprefix("gw")) if worker.removeprefix("gw").isdigit() else 0
    names = visible.split(",") if visible else [str(i) for i in range(count)]
    return names[number % count]


if __name__ == "__main__":
    print(count_in_this_process())
