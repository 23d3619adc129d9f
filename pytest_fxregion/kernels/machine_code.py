"""Compile Triton kernels to machine code for a named GPU, without one.

Comes in: kernels as Inductor wrote them (their device properties name the architecture).  Goes out:
:class:`MachineCode` for each, with the registers, spills and shared memory that the assembler
reports.  The work is done in a process of its own, because Triton decides when it is imported
whether it interprets or compiles, and kept in a private cache folder, keyed by the kernel's source
and the versions of Triton and torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from pytest_fxregion.cache import private_folder
from pytest_fxregion.errors import DeviceError
from pytest_fxregion.kernels.source import Kernel
from pytest_fxregion.progress import step


@dataclass(frozen=True)
class MachineCode:
    """What one configuration of a kernel is compiled to.

    ``configuration`` is Triton's (block sizes, warps, stages).  ``registers`` are per thread;
    ``spill_stores``, ``spill_loads`` and ``shared_memory`` are in bytes; ``ptx`` is its assembly
    and ``cubin_bytes`` the size of the binary.
    """

    kernel: str
    architecture: str
    configuration: str
    registers: int
    spill_stores: int
    spill_loads: int
    shared_memory: int
    cubin_bytes: int
    ptx: str

    @property
    def spills(self) -> bool:
        """Whether values go to memory because the registers do not hold them all."""
        return self.spill_stores + self.spill_loads > 0

    def __str__(self) -> str:
        spilled = f", spills {self.spill_stores + self.spill_loads} B" if self.spills else ""
        return (
            f"{self.kernel} [{self.configuration}] {self.architecture}: "
            f"{self.registers} registers, "
            f"{self.shared_memory} B shared{spilled}"
        )


def compile_kernels(kernels: Sequence[Kernel], *, timeout: float = 600) -> tuple[MachineCode, ...]:
    """Compile every Triton kernel, in every configuration that Inductor would try.

    ``timeout`` is in seconds.  Raises :class:`~pytest_fxregion.errors.DeviceError` with what the
    compiler said if a kernel does not compile.
    """
    wanted = [kernel for kernel in kernels if kernel.language == "triton"]
    missing = [kernel for kernel in wanted if _cached(kernel) is None]
    if missing:
        step(f"compiling {len(missing)} kernels to machine code")
        for kernel, codes in zip(missing, _compile_apart(missing, timeout), strict=True):
            _keep(kernel, codes)
    return tuple(code for kernel in wanted for code in _cached(kernel) or ())


def _compile_apart(kernels: Sequence[Kernel], timeout: float) -> list[list[MachineCode]]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "pytest_fxregion.kernels.worker"]
    request = json.dumps([{"name": k.name, "source": k.source} for k in kernels])
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, env=environment, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"compiling {len(kernels)} kernels took more than {timeout:.0f} s: "
            + ", ".join(kernel.name for kernel in kernels)
        ) from None
    if done.returncode != 0:
        said = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-12:])
        names = ", ".join(kernel.name for kernel in kernels)
        raise DeviceError(f"compiling {names} to machine code failed:\n{said}")
    answers: list[list[dict[str, object]]] = json.loads(done.stdout)
    return [[MachineCode(**code) for code in codes] for codes in answers]  # type: ignore[arg-type]


def _cache_file(kernel: Kernel) -> Path:
    versions = f"triton {metadata.version('triton')}, torch {metadata.version('torch')}"
    key = hashlib.sha256(f"{versions}\n{kernel.stable_source}".encode()).hexdigest()
    return private_folder("machine-code") / f"{kernel.name[:80]}-{key[:24]}.json"


def _cached(kernel: Kernel) -> list[MachineCode] | None:
    try:
        stored = json.loads(_cache_file(kernel).read_text(encoding="utf-8"))
        return [MachineCode(**code) for code in stored]
    except (OSError, ValueError, TypeError):  # nothing there, or not what we wrote: compile it
        return None


def _keep(kernel: Kernel, codes: Sequence[MachineCode]) -> None:
    file = _cache_file(kernel)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.write_text(json.dumps([asdict(code) for code in codes]), encoding="utf-8")
    partial.replace(file)
