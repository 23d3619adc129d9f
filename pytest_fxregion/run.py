"""One function's run, eager and regional: records of the compilation, results, and the checks.

Comes in: what the harness captured and executed.  Goes out: a :class:`RegionRun`, whose checks hold
the regional results, sums of gradients and graphs against eager's and the snapshot's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from pytest_fxregion.capture.record import Compilation, CompiledGraph, GraphRecord
from pytest_fxregion.checks import memory, numerics
from pytest_fxregion.checks.culprit import IsWrong
from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.gradient_accumulation import tagged_nodes
from pytest_fxregion.checks.outside import unrepeatable
from pytest_fxregion.checks.repeats import more_than_rounding, not_by_rounding, not_repeated
from pytest_fxregion.checks.traced_accumulations import Tracked, wrong_sums
from pytest_fxregion.errors import CheckError, FxRegionError
from pytest_fxregion.execution import Results
from pytest_fxregion.kernels.execution import ExecutionRecord
from pytest_fxregion.kernels.machine_code import MachineCode
from pytest_fxregion.kernels.source import Kernel
from pytest_fxregion.regional import Region
from pytest_fxregion.snapshots.document import Document


class SnapshotCheck(Protocol):
    """Holds a document against the stored one of this test; raises when they differ."""

    def __call__(self, document: Document, *, name: str | None) -> None: ...


@dataclass
class RegionRun:
    """One function, run in eager and with its annotated regions compiled.

    ``outputs`` and ``gradients`` (by the name of argument or parameter) are the regional run's.
    ``graphs`` has one entry for each graph that dynamo made, ``regions`` every compiled region.
    ``joint``, ``forward``, ``backward`` and ``inference`` are there where there is one graph.
    ``execution`` says what was traced, lowered, compiled, interpreted, run and assumed.
    ``machine_code`` has what each Triton kernel is compiled to, where that was asked for.
    """

    test: str
    name: str | None
    compilation: Compilation
    eager: Results
    regional: Results
    reference: Results | None
    precision: torch.dtype | None
    outside: frozenset[str]
    eager_again: Callable[[], Mapping[str, Any]]
    reference_again: Callable[[], Mapping[str, Any]]
    samples: numerics.Sampler
    explain: Callable[[IsWrong, numerics.Tolerance | None], str]
    tracked: Tracked
    provenance: str
    stages: tuple[str, ...]
    seconds: float
    snapshot: SnapshotCheck
    tolerance: tuple[float, float] | None
    machine_code: tuple[MachineCode, ...]
    execution: ExecutionRecord
    differences: tuple[Difference, ...] = field(default=(), init=False)

    @property
    def outputs(self) -> Any:
        """What the compiled function returned."""
        return self.regional.outputs

    @property
    def gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of the regional run, by name."""
        return self.regional.gradients

    @property
    def graphs(self) -> tuple[CompiledGraph, ...]:
        """The graphs that dynamo made of the function: one, unless the graph breaks."""
        return self.compilation.graphs

    @property
    def regions(self) -> tuple[Region, ...]:
        """Every compiled region, in the order of graphs and stages."""
        return self.compilation.regions

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel that Inductor generated for the regions, each once."""
        return self.compilation.kernels

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say besides: tags that differ from torch's, nodes that a region lost."""
        return self.compilation.notes + self.compilation.losses

    @property
    def joint(self) -> GraphRecord:
        """The joint graph, before it was split into forward and backward."""
        return self._only("joint")

    @property
    def forward(self) -> GraphRecord:
        """The forward graph, its regions compiled."""
        return self._only("forward")

    @property
    def backward(self) -> GraphRecord:
        """The backward graph, its regions compiled."""
        return self._only("backward")

    @property
    def inference(self) -> GraphRecord:
        """The graph of a call that needed no gradients."""
        return self._only("inference")

    @property
    def document(self) -> Document:
        """What a snapshot of this run holds."""
        return self.compilation.document(self.stages, self.provenance)

    def snapshot_document(self) -> Document:
        """Return what ``assert run == fxregion_snapshot`` compares."""
        return self.document

    @property
    def worst(self) -> Difference | None:
        """The difference that used most of what is allowed, once numerics were checked."""
        return max(self.differences, key=lambda d: d.of_allowed, default=None)

    def check_numerics(
        self, *, rtol: float | None = None, atol: float | None = None, exact: bool = False
    ) -> None:
        """Hold outputs, gradients, changed arguments and buffers against eager's.

        With ``rtol`` or ``atol`` (or the marker's tolerance) in place of the rule of
        :mod:`pytest_fxregion.checks.numerics`; ``exact`` asks for equal values.

        Raises :class:`~pytest_fxregion.errors.CheckError` that names the wrong region and operation
        and the command that shows them by themselves.
        """
        __tracebackhide__ = True
        tolerance = None
        if exact or rtol is not None or atol is not None:
            tolerance = numerics.Tolerance(rtol or 0.0, atol or 0.0)
        elif self.tolerance is not None:
            tolerance = numerics.Tolerance(*self.tolerance)

        outside, sampled = self.outside, False

        def samples(count: int) -> Sequence[Mapping[str, Any]]:
            nonlocal sampled
            sampled = True
            return self.samples(count)

        def compared(regional: Mapping[str, Any]) -> tuple[Difference, ...]:
            return numerics.compare(
                self.eager.values,
                regional,
                None if self.reference is None else self.reference.values,
                precision=self.precision,
                tolerance=tolerance,
                outside=outside,
                samples=samples,
            )

        self.differences = compared(self.regional.values)
        doubtful = {d.name for d in self.differences if d.problem is not None} & outside
        if doubtful:
            outside = outside - unrepeatable(doubtful, self.eager_again)
            self.differences = compared(self.regional.values)
        wrong = [d for d in self.differences if d.problem is not None]
        if wrong or sampled or any(map(self._is_doubtful, self.differences)):
            self._hold_eager_to_itself()
        if wrong:
            lines = "\n".join(f"  {difference}" for difference in wrong)
            raise CheckError(
                f"{self._where}: the compiled regions do not compute what eager does\n{lines}\n"
                + self.explain(lambda values: any(d.problem for d in compared(values)), tolerance)
            )

    def check_gradient_accumulation(self) -> None:
        """Hold the tagged additions of gradients against those that eager's engine made.

        Where dynamo traced other operations than eager runs, against those that the engine makes in
        dynamo's graphs.  Only where the backward has run: with ``backward=False`` there is nothing
        to hold them against.

        Raises :class:`~pytest_fxregion.errors.CheckError` naming what was summed and from where.
        """
        __tracebackhide__ = True
        if not self.eager.cotangents:
            return
        ran = [graph for graph in self.graphs for _ in range(graph.backward_runs)]
        joint = [graph.joint.graph for graph in ran if graph.joint is not None]
        traced = [graph.traced for graph in ran if graph.traced is not None]
        found = wrong_sums(self.tracked, traced, joint)
        if found:
            lines = "\n".join(f"  {text}" for text in found)
            raise CheckError(f"{self._where}: gradients are not summed as in eager\n{lines}")

    def check_memory(self, *, saved_at_most: int | str) -> None:
        """Hold the bytes that the forward saves for the backward against a bound.

        ``saved_at_most`` is a number of bytes or a text like ``"1.5 MiB"``; it is for the sizes of
        this call, and all its graphs together.

        Raises :class:`~pytest_fxregion.errors.CheckError` that lists the largest saved values, the
        lines that they come from and the regions that compute them.
        """
        __tracebackhide__ = True
        saved = [
            value
            for graph in self.graphs
            for record in graph.stages()
            for value in record.saved_for_backward
        ]
        text = memory.too_much_saved(saved, memory.parse_bytes(saved_at_most))
        if text is not None:
            raise CheckError(f"{self._where}: {text}")

    def check_snapshot(self, name: str | None = None) -> None:
        """Hold the graphs against the stored snapshot of this test.

        ``name`` tells several runs of one test apart; it defaults to the run's own.
        """
        __tracebackhide__ = True
        self.snapshot(self.document, name=name or self.name)

    def check(self) -> None:
        """Check numerics, then gradient accumulation, then the snapshot.

        In this order a wrong result is never recorded.
        """
        __tracebackhide__ = True
        if not self.graphs:
            raise CheckError(
                f"{self._where}: torch.compile made no graph of the function and ran it eagerly "
                "(TORCH_LOGS=graph_breaks says why), so there is nothing to check"
            )
        self.check_numerics()
        self.check_gradient_accumulation()
        self.check_snapshot()

    def report(self) -> str:
        """Return the graphs and the checked numbers, as ``--fxregion-show`` prints them."""
        graphs = (
            f"---- {section.title} ----\n{section.text}\n" for section in self.document.sections
        )
        numbers = [f"  {difference}" for difference in self.differences] or ["  not checked"]
        sums = (f"  {accumulation}" for accumulation in self.tracked.eager)
        parts = [*graphs, "---- numbers ----", *numbers]
        if self.machine_code:
            parts += ["\n---- machine code ----", *(f"  {code}" for code in self.machine_code)]
        parts += ["\n---- what was done where ----", *(f"  {x}" for x in self.execution.lines())]
        if self.tracked.eager:
            parts += ["\n---- sums of gradients, in eager ----", *sums]
        if self.notes:
            parts += ["\n---- notes ----", *(f"  {note}" for note in self.notes)]
        return "\n".join(parts)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the terminal summary's row, as plain values."""
        graphs = self.graphs

        def regions(*stages: str) -> int:
            return sum(len(r.regions) for g in graphs for r in g.stages() if r.stage in stages)

        worst = self.worst
        return {
            "name": self.name,
            "device": self.execution.traced,
            "graphs": len(graphs),
            "regions_forward": regions("forward", "inference"),
            "regions_backward": regions("backward"),
            "nodes": sum(r.node_count for g in graphs for r in g.stages() if r.stage != "joint"),
            "merged_nodes": sum(r.merged for g in graphs for r in g.stages()),
            "saved_bytes": sum(r.saved_bytes for g in graphs for r in g.stages()),
            "gradient_accumulations": sum(
                len(tagged_nodes(g.joint.graph)) for g in graphs if g.joint is not None
            ),
            "worst_of_allowed": None if worst is None else worst.of_allowed,
            "worst_name": None if worst is None else worst.name,
            "seconds": self.seconds,
            "spilling": sorted({code.kernel for code in self.machine_code if code.spills}),
        }

    def _is_doubtful(self, difference: Difference) -> bool:
        """Whether eager itself is far from the float64 run."""
        result = self.eager.values.get(difference.name)
        return (
            isinstance(result, torch.Tensor)
            and difference.eager_error > 0
            and difference.eager_error > more_than_rounding(result) * difference.scale
        )

    def _hold_eager_to_itself(self) -> None:
        """Raise if the function gives something else each time that it is called in eager."""
        __tracebackhide__ = True
        found = not_repeated(self.eager.values, self.eager_again())
        if found and self.reference is not None:
            found = not_by_rounding(found, self.reference.values, self.reference_again())
        if found:
            lines = "\n".join(f"  {name}: differs by {by:.2g}" for name, by in found.items())
            raise CheckError(
                f"{self._where}: eager does not give the same twice, so there is nothing to hold "
                f"the compiled function to\n{lines}\n"
                "something that the function reads and that is not put back is another one in each "
                "call, as a list or an array that it closes over and writes to: pass it as an "
                "argument, or read it before; or the test changed it between the run and this check"
            )

    @property
    def _where(self) -> str:
        return self.test if self.name is None else f"{self.test}, run {self.name!r}"

    def _only(self, stage: str) -> GraphRecord:
        if not self.graphs:
            raise FxRegionError(
                f"{self._where}: nothing was compiled, so there is no {stage} graph"
            )
        if len(self.graphs) > 1:
            raise FxRegionError(
                f"{self._where}: the function was compiled as {len(self.graphs)} graphs (it has a "
                f"graph break); take one, as in run.graphs[0].{stage}"
            )
        for record in self.graphs[0].stages():
            if record.stage == stage:
                return record
        there = ", ".join(record.stage for record in self.graphs[0].stages())
        raise FxRegionError(f"{self._where}: there is no {stage} graph here, only {there}")
