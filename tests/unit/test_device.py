"""Which device the tests run on, chosen without torch."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_fxregion import device
from pytest_fxregion.device import CPU, CUDA, Device, choose, gpu, virtual
from pytest_fxregion.errors import DeviceError
from pytest_fxregion.options import Options

# What is not about the device is left out.
OPTIONS = Options(
    **{
        **dict.fromkeys((field.name for field in fields(Options)), cast(Any, None)),
        "active": True,
        "device": "auto",
        "arch": "h100",
        "gpu_required": False,
    }
)


def chosen(asked: str, arch: str = "h100") -> Device:
    return choose(replace(OPTIONS, device=asked, arch=arch))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A machine with so many GPUs, this kind of torch, and a reason against the virtual device."""
    gpus, cuda_build, no_virtual = request.param
    monkeypatch.setattr(device, "count_gpus", lambda: gpus)
    monkeypatch.setattr(device, "torch_is_built_for_cuda", lambda: cuda_build)
    monkeypatch.setattr(virtual, "unavailable", lambda: no_virtual)


def on(
    gpus: int, *, cuda_build: bool = True, no_virtual: str | None = None
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("machine", [(gpus, cuda_build, no_virtual)], indirect=True)


@on(2)
@pytest.mark.usefixtures("machine")
def test_auto_takes_a_gpu_that_is_there() -> None:
    assert chosen("auto") == chosen("cuda") == CUDA
    assert CUDA.is_gpu
    assert CUDA.torch_device == "cuda:0"
    assert CUDA.variants == ()


@on(0)
@pytest.mark.usefixtures("machine")
def test_auto_takes_the_virtual_device_where_no_gpu_is() -> None:
    found = chosen("auto", "a100")
    assert (found.kind, found.torch_device, found.arch) == ("virtual", "cuda:0", "a100")
    assert found.label == "virtual a100 (no GPU)"
    assert not found.is_gpu
    assert found.variants == ()  # it shares the base files with a GPU


@on(0, no_virtual="there is no C++ compiler")
@pytest.mark.usefixtures("machine")
def test_auto_falls_back_to_the_cpu_and_says_why() -> None:
    found = chosen("auto")
    assert replace(found, note=None) == CPU
    assert found.note is not None
    assert "no GPU answers" in found.note
    assert "there is no C++ compiler" in found.note
    assert found.variants == ("cpu",)


@on(1, cuda_build=False, no_virtual="not here")
@pytest.mark.usefixtures("machine")
def test_a_gpu_is_of_no_use_to_a_torch_without_cuda() -> None:
    assert chosen("auto").kind == "cpu"
    with pytest.raises(DeviceError, match="built without CUDA") as error:
        chosen("cuda")
    assert "--fxregion-device=cpu" in str(error.value)


@on(0)
@pytest.mark.usefixtures("machine")
def test_cuda_that_was_asked_for_and_is_not_there_is_an_error() -> None:
    with pytest.raises(DeviceError, match="no GPU answers"):
        chosen("cuda")


@on(1, no_virtual="there is no C++ compiler")
@pytest.mark.usefixtures("machine")
def test_virtual_that_was_asked_for_and_cannot_be_had_is_an_error() -> None:
    with pytest.raises(DeviceError, match="there is no C\\+\\+ compiler"):
        chosen("virtual")


@on(0)
@pytest.mark.usefixtures("machine")
def test_an_unknown_architecture_is_named_with_the_known_ones() -> None:
    with pytest.raises(DeviceError) as error:
        chosen("virtual", "z9")
    assert "--fxregion-arch=z9" in str(error.value)
    for arch in ("a100", "h100"):
        assert arch in str(error.value)


@on(1)
@pytest.mark.usefixtures("machine")
def test_the_cpu_is_taken_where_it_is_asked_for() -> None:
    assert chosen("cpu") == CPU


def test_the_cpu_and_a_gpu_need_nothing_loaded_or_put_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(virtual, "load", fail)
    monkeypatch.setattr(virtual, "activate", fail)
    for one in (CPU, CUDA):
        device.load(one, runs_tests=True, progress=fail)
        with device.active(one):
            pass


DRIVER = """
#include <stdlib.h>
int cuInit(unsigned flags) { return flags ? 1 : atoi(getenv("START")); }
int cuDeviceGetCount(int *count) { *count = atoi(getenv("GPUS")); return atoi(getenv("ANSWER")); }
"""


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CUDA driver that answers what the environment tells it to."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a driver with")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    command = [compiler, "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def counted(**environment: str) -> int:
    """Count the GPUs in a process of its own."""
    script = "from pytest_fxregion.device.gpu import count_gpus; print(count_gpus())"
    asked = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(asked.stdout)


@pytest.mark.parametrize(
    ("start", "answer", "gpus", "count"),
    [
        (0, 0, 3, 3),
        (0, 0, 0, 0),
        (100, 0, 3, 0),  # CUDA_ERROR_NO_DEVICE
        (0, 3, 3, 0),  # CUDA_ERROR_NOT_INITIALIZED
    ],
)
def test_gpus_are_counted_by_the_driver(
    drivers: Path, start: int, answer: int, gpus: int, count: int
) -> None:
    environment = {"START": str(start), "ANSWER": str(answer), "GPUS": str(gpus)}
    assert counted(LD_LIBRARY_PATH=str(drivers), **environment) == count


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", load)
    gpu.count_gpus.cache_clear()  # it asks the driver once a process
    try:
        assert gpu.count_gpus() == 0
    finally:
        gpu.count_gpus.cache_clear()


def test_a_cuda_build_is_told_by_its_libraries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec: SimpleNamespace | ModuleSpec | None = SimpleNamespace(
        origin=str(tmp_path / "__init__.py")
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert not gpu.torch_is_built_for_cuda()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cuda.so").touch()
    assert gpu.torch_is_built_for_cuda()
    spec = None
    assert not gpu.torch_is_built_for_cuda()


@pytest.mark.parametrize(
    ("worker", "visible", "count", "gpu_names"),
    [
        ("gw0", None, 2, "0"),
        ("gw1", None, 2, "1"),
        ("gw2", None, 2, "0"),
        ("gw1", "4,7", 2, "7"),
        ("gw3", "GPU-a,GPU-b", 2, "GPU-b"),
        ("master", None, 2, "0"),
    ],
)
def test_each_worker_has_a_gpu_of_its_own(
    worker: str, visible: str | None, count: int, gpu_names: str
) -> None:
    assert gpu.gpu_of_worker(worker, visible, count) == gpu_names


@pytest.mark.parametrize(
    ("worker", "count", "seen"), [("gw1", 2, "1"), ("gw1", 1, ""), ("", 2, "")]
)
def test_only_workers_among_several_gpus_take_one(
    monkeypatch: pytest.MonkeyPatch, worker: str, count: int, seen: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # is as before after the test
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    monkeypatch.setattr(gpu, "count_gpus", lambda: count)
    gpu.take_one_of_several()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
