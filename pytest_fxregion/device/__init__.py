"""Which device the tests run on: chosen without torch, put in place around each test.

Comes in: the options.  Goes out: a :class:`Device`.  Nothing here imports torch until a test runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_fxregion.device import virtual
from pytest_fxregion.device.gpu import (
    count_gpus,
    take_one_of_several,
    torch_is_built_for_cuda,
)
from pytest_fxregion.errors import DeviceError
from pytest_fxregion.options import Options


@dataclass(frozen=True)
class Device:
    """A device under test.

    ``kind`` is ``cuda``, ``virtual`` or ``cpu``; ``torch_device`` what tensors are made on;
    ``label`` what header, summary and snapshots call it; ``arch`` the GPU that a virtual device
    stands for.  ``note`` says why ``auto`` took it where that is not what one would expect.
    """

    kind: str
    torch_device: str
    label: str
    arch: str | None = None
    note: str | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run on hardware."""
        return self.kind == "cuda"

    @property
    def variants(self) -> tuple[str, ...]:
        """Snapshot variants of this device, the most specific first; the base file is CUDA's."""
        return ("cpu",) if self.kind == "cpu" else ()


CPU = Device("cpu", "cpu", "cpu")
CUDA = Device("cuda", "cuda:0", "cuda")


def choose(options: Options) -> Device:
    """Return the device that the options ask for.

    Raises :class:`~pytest_fxregion.errors.DeviceError` if it is not there.
    """
    if options.device == "cpu":
        return CPU
    if options.device == "virtual":
        return _virtual(options.arch)
    missing = why_no_gpu()
    if missing is None:
        return CUDA
    if options.device == "cuda":
        raise DeviceError(
            f"--fxregion-device=cuda: {missing}.  Run with --fxregion-device=cpu, "
            "or leave the option out to take what is there."
        )
    no_virtual = virtual.unavailable()
    if no_virtual is None:
        return _virtual(options.arch)
    return Device("cpu", "cpu", "cpu", note=f"{missing}, and {no_virtual}; using the CPU")


def why_no_gpu() -> str | None:
    """Return why no GPU can be used here, or None if one can."""
    if not torch_is_built_for_cuda():
        return "this torch is built without CUDA"
    if count_gpus() == 0:
        return "no GPU answers to the CUDA driver"
    return None


def load(device: Device, *, runs_tests: bool, progress: Callable[[str], None]) -> None:
    """Put in place what a device needs before torch is imported.

    A process that runs no tests (xdist's controller) only builds it, for its workers to load.
    ``progress`` is told in one line when something has to be built.
    """
    if device.kind == "cuda" and runs_tests:
        take_one_of_several()
    if device.kind != "virtual":
        return
    if runs_tests:
        virtual.load(progress)
    else:
        virtual.build.build(progress)


@contextmanager
def active(device: Device) -> Iterator[None]:
    """Put the device in place for one test, and take it away again."""
    if device.arch is None:
        yield
        return
    with virtual.activate(device.arch):
        yield


def _virtual(arch: str) -> Device:
    if arch not in virtual.ARCHITECTURES:
        raise DeviceError(
            f"--fxregion-arch={arch}: not one of {', '.join(sorted(virtual.ARCHITECTURES))}"
        )
    missing = virtual.unavailable()
    if missing is not None:
        raise DeviceError(f"the virtual device cannot be used here: {missing}")
    return Device("virtual", "cuda:0", f"virtual {arch} (no GPU)", arch)
