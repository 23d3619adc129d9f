"""The process that compiles kernels: JSON on standard input, JSON on standard output.

Run as ``python -m pytest_fxregion.kernels.worker``, without ``TRITON_INTERPRET``.  Needs no GPU:
the kernels' own metadata names the architecture, and registers are read from what ``ptxas`` reports
of the kernel's PTX.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    """Compile what standard input asks for."""
    request = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr), _no_driver():
        answer = [_compile(kernel["name"], kernel["source"]) for kernel in request]
    json.dump(answer, sys.stdout)


@contextlib.contextmanager
def _no_driver() -> Iterator[None]:
    """Let kernels be defined and compiled where no CUDA driver is."""
    from pytest_fxregion._torch.inductor import inductor_runtime_helpers, patched_inductor_config

    inductor_runtime_helpers.set_driver_to_gpu = lambda: None
    with patched_inductor_config({"use_static_triton_launcher": False}):
        yield


def _compile(name: str, source: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, name)
        # The autotuner's own compile step, which stops before anything is loaded on a device.
        kernel.precompile(warm_cache_only=True)
        return [_describe(name, result, Path(folder)) for result in kernel.compile_results]


def _describe(name: str, result: Any, folder: Path) -> dict[str, Any]:
    kernel = result.kernel
    ptx = kernel.asm["ptx"]
    target = re.search(r"^\.target (sm_\w+)", ptx, re.M)
    architecture = target[1] if target else f"sm_{kernel.metadata.target.arch}"
    report = _assemble(ptx, architecture, kernel.metadata.target.arch, folder)
    return {
        "kernel": name,
        "architecture": architecture,
        "configuration": _configuration(result.config),
        "registers": _number(r"Used (\d+) registers", report),
        "spill_stores": _number(r"(\d+) bytes spill stores", report),
        "spill_loads": _number(r"(\d+) bytes spill loads", report),
        "shared_memory": int(kernel.metadata.shared),
        "cubin_bytes": len(kernel.asm["cubin"]),
        "ptx": ptx,
    }


def _configuration(config: Any) -> str:
    blocks = ", ".join(f"{key}={value}" for key, value in sorted(config.kwargs.items()))
    return f"{blocks}, warps={config.num_warps}, stages={config.num_stages}"


def _assemble(ptx: str, architecture: str, number: int, folder: Path) -> str:
    """Return what the assembler reports; compute capability ``number`` (90, 100)."""
    from triton.backends.nvidia.compiler import get_ptxas

    source = folder / "kernel.ptx"
    source.write_text(ptx, encoding="utf-8")
    assembler = get_ptxas(number).path  # Triton brings several, and chooses by architecture
    command = [assembler, "-v", f"--gpu-name={architecture}", str(source), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stderr


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
