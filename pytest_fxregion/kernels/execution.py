"""What was really done in a run: traced, lowered, compiled, interpreted, run, and what was assumed.

Comes in: the device, the compilation, the kernels that were interpreted and compiled.  Goes out: an
:class:`ExecutionRecord`, so that nobody takes an interpreted kernel for one that ran on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_fxregion.capture.record import Compilation
from pytest_fxregion.device import Device
from pytest_fxregion.device.virtual.launches import Launch
from pytest_fxregion.kernels.machine_code import MachineCode

_MATMULS = ("mm", "addmm", "bmm", "baddbmm")


@dataclass(frozen=True)
class ExecutionRecord:
    """The run's evidence, each kind apart.

    ``traced``: the device that graphs were traced for.  ``lowered``: kernels that Inductor
    generated.  ``compiled``: kernels that were compiled to machine code.  ``interpreted``: kernels
    that Triton's interpreter ran, with configuration and grid.  ``on_cpu``: what ran as operators
    or kernels of the CPU.  ``on_hardware``: what ran on a GPU.  ``assumed``: decisions that a GPU
    takes by measuring or by its driver, and that were fixed instead.
    """

    traced: str
    lowered: tuple[str, ...]
    compiled: tuple[str, ...]
    interpreted: tuple[str, ...]
    on_cpu: tuple[str, ...]
    on_hardware: tuple[str, ...]
    assumed: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the record as text, a line for each kind that is there."""
        yield f"traced for: {self.traced}"
        for title, items in (
            ("lowered", self.lowered),
            ("compiled to machine code", self.compiled),
            ("interpreted", self.interpreted),
            ("run on the CPU", self.on_cpu),
            ("run on a GPU", self.on_hardware),
            ("assumed", self.assumed),
        ):
            if items:
                yield f"{title}: {'; '.join(items)}"


def execution_record(
    device: Device,
    compilation: Compilation,
    launches: Sequence[Launch],
    machine_code: Sequence[MachineCode],
) -> ExecutionRecord:
    """Put together what is known of a run."""
    kernels = tuple(kernel.name for kernel in compilation.kernels)
    operators = compilation.operators
    everything_else = "everything outside of regions"
    by_hand = (*operators, everything_else)
    if device.kind == "cpu":
        on_cpu: tuple[str, ...] = (*kernels, *by_hand)
    else:
        on_cpu = by_hand if device.kind == "virtual" else ()
    return ExecutionRecord(
        # The CPU's two names are one.
        traced=", ".join(dict.fromkeys((device.torch_device, device.label))),
        lowered=kernels,
        compiled=tuple(dict.fromkeys(f"{c.kernel} ({c.architecture})" for c in machine_code)),
        interpreted=tuple(dict.fromkeys(str(launch) for launch in launches)),
        on_cpu=on_cpu,
        on_hardware=(*kernels, *by_hand) if device.kind == "cuda" else (),
        assumed=tuple(_assumptions(compilation, launches)) if device.kind == "virtual" else (),
    )


def _assumptions(compilation: Compilation, launches: Sequence[Launch]) -> Iterator[str]:
    targets = {
        str(node.target)
        for graph in compilation.graphs
        for record in graph.stages()
        for node in record.graph.graph.nodes
    }
    if any("scaled_dot_product" in target for target in targets):
        yield "the attention kernel, by torch's documented rules for CUDA"
    called = {operator.rpartition(".")[2] for operator in compilation.operators}
    if called.intersection(_MATMULS) or any(
        f"aten.{name}." in t for t in targets for name in _MATMULS
    ):
        yield "no padding of matrix products"
    if launches:
        yield "the first configuration of each kernel, without autotuning"
        yield "no fused multiply-add, no TF32, no approximate functions"
