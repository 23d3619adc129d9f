"""What the virtual CUDA device costs.

    python benchmarks/virtual_device.py

*Build*: making the native library for this torch, once, into an empty cache; wall time and the CPU
time of all compilers together.  *Operators*: the time of an operator on the virtual device over the
same on the CPU, for tensors of 1 MiB; both interleaved in one process, the fastest round of each,
since other processes only ever slow a round down.  *FlexAttention*: forward and backward, compiled
and interpreted, of 1x2x128x32 with a causal block mask and a score modification; wall and CPU time.
*Regional test*: the wall time of the two-layer transformer test, forward and backward, from cold
caches, on the virtual device over the CPU device with its C++ compiler; each in a process of its
own.  Times are of a machine that does other things too: CPU time says more than wall time.  Writes
benchmarks/results/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_fxregion.device import virtual

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks/results/virtual_device.json"
TEST = "tests/regions/test_transformer_block.py::test_training"
ROUNDS = 40


def main() -> None:
    """Measure, print and write."""
    build = measure_build()
    virtual.load(print)
    operators = measure_operators()
    flex = measure_flex_attention()
    test = {device: measure_cold_test(device) for device in ("virtual", "cpu")}
    result = {
        "torch": version("torch"),
        "build, s": build,
        "FlexAttention 1x2x128x32 forward and backward, s": flex,
        "operators": operators,
        "worst operator ratio": max(operators.values()),
        "cold test, s": test,
        "cold test ratio": round(test["virtual"] / test["cpu"], 2),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def measure_build() -> dict[str, float]:
    """Return wall and CPU seconds of the library's build, in a process of its own."""
    program = "from pytest_fxregion.device.virtual import build; build.build()"
    with tempfile.TemporaryDirectory() as cache:
        return _timed(
            lambda: subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "FXREGION_CACHE_DIR": f"{cache}/fxregion"},
                cwd=ROOT,
                check=True,
            )
        )


def _timed(action: Callable[[], object]) -> dict[str, float]:
    """Wall and CPU seconds, those of finished child processes included."""

    def cpu() -> float:
        return sum(os.times()[:4])

    wall, used = perf_counter(), cpu()
    action()
    return {"wall": round(perf_counter() - wall, 1), "cpu": round(cpu() - used, 1)}


def measure_flex_attention() -> dict[str, float]:
    """Return wall and CPU seconds of one step of FlexAttention, its compilation included."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q >= k

    def distance(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + (q - k) * 0.01

    with virtual.activate("h100"):
        tensors = [torch.randn(1, 2, 128, 32, device="cuda", requires_grad=True) for _ in range(3)]
        mask = create_block_mask(causal, 1, 1, 128, 128, device="cuda", BLOCK_SIZE=64)
        compiled = torch.compile(flex_attention, fullgraph=True)

        def step() -> None:
            query, key, value = tensors
            out = compiled(query, key, value, score_mod=distance, block_mask=mask)
            assert isinstance(out, torch.Tensor)
            out.sum().backward()

        return _timed(step)


def measure_operators() -> dict[str, float]:
    """Return, by operator, the time on the virtual device over that on the CPU, 1 MiB operands."""
    import torch

    torch.set_num_threads(1)
    operators: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "add": lambda x: x + x,
        "mul by a number": lambda x: x * 2,
        "sin": torch.sin,
        "sum": lambda x: x.sum(-1),
        "softmax": lambda x: x.softmax(-1),
        "transposed copy": lambda x: x.t().contiguous(),
        "matmul": lambda x: x @ x,
        "cat": lambda x: torch.cat([x, x]),
        "index_select": lambda x: x.index_select(0, torch.arange(256, device=x.device)),
    }
    with virtual.activate("h100"):
        host = torch.randn(512, 512)  # 1 MiB
        device = host.cuda()
        return {
            name: round(_ratio(operator, device, host), 2) for name, operator in operators.items()
        }


def _ratio(
    operator: Callable[[torch.Tensor], torch.Tensor], device: torch.Tensor, host: torch.Tensor
) -> float:
    times: dict[str, list[float]] = {"device": [], "host": []}
    for _ in range(ROUNDS):
        for name, tensor in (("device", device), ("host", host)):
            start = perf_counter()
            for _ in range(5):
                operator(tensor)
            times[name].append(perf_counter() - start)
    return min(times["device"]) / min(times["host"])


def measure_cold_test(device: str) -> float:
    """Return the wall time in seconds of the regional test from empty compile caches."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": cache,
            "TRITON_CACHE_DIR": cache,
            "TMPDIR": cache,
        }
        command = [sys.executable, "-m", "pytest", TEST, "-q", "--fxregion"]
        start = perf_counter()
        subprocess.run(
            [*command, f"--fxregion-device={device}", "-p", "no:cacheprovider"],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
        )
        return round(perf_counter() - start, 1)


if __name__ == "__main__":
    main()
