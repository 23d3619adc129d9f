"""The object behind the ``fxregion`` fixture, and the run that it returns.

Comes in: a function or module with inputs.  Goes out: a :class:`RegionRun`: the records of the
compilation, the results of eager and regional, and the checks that hold one against the other.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import torch

from pytest_fxregion._torch import patched_inductor_config, reset_compiler
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.capture.record import Compilation, CompiledGraph, GraphRecord
from pytest_fxregion.checks import numerics
from pytest_fxregion.checks.gradient_accumulation import (
    Accumulation,
    EagerAccumulations,
    disagreements,
    unfolded_checkpoints,
)
from pytest_fxregion.device import Device
from pytest_fxregion.errors import CheckError, FxRegionError
from pytest_fxregion.execution import Call, PrecisionWatch, Results, execute, widened
from pytest_fxregion.regional import Region
from pytest_fxregion.snapshots.document import Document


class SnapshotCheck(Protocol):
    """Holds a document against the stored one of this test; raises when they differ."""

    def __call__(self, document: Document, *, name: str | None) -> None: ...


@dataclass(frozen=True)
class Tracked:
    """What the accumulation check needs from the runs, beside the joint graphs."""

    eager: tuple[Accumulation, ...]
    between_graphs: tuple[Accumulation, ...]


@dataclass
class RegionRun:
    """One function, run in eager and with its annotated regions compiled.

    ``outputs`` and ``gradients`` (by the name of argument or parameter) are the regional run's.
    ``graphs`` has one entry for each graph that dynamo made, ``regions`` every compiled region.
    ``joint``, ``forward``, ``backward`` and ``inference`` are there where there is one graph.
    """

    test: str
    name: str | None
    compilation: Compilation
    eager: Results
    regional: Results
    reference: Results | None
    precision: torch.dtype | None
    tracked: Tracked
    provenance: str
    stages: tuple[str, ...]
    seconds: float
    snapshot: SnapshotCheck
    tolerance: tuple[float, float] | None
    differences: tuple[numerics.Difference, ...] = field(default=(), init=False)

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
    def worst(self) -> numerics.Difference | None:
        """The difference with the largest relative error, once numerics were checked."""
        return max(self.differences, key=lambda d: d.relative_error, default=None)

    def check_numerics(
        self, *, rtol: float | None = None, atol: float | None = None, exact: bool = False
    ) -> None:
        """Hold outputs, gradients, changed arguments and buffers against eager's.

        With ``rtol`` or ``atol`` (or the marker's tolerance) in place of the rule of
        :mod:`pytest_fxregion.checks.numerics`; ``exact`` asks for equal values.

        Raises :class:`~pytest_fxregion.errors.CheckError`.
        """
        __tracebackhide__ = True
        tolerance = None
        if exact or rtol is not None or atol is not None:
            tolerance = numerics.Tolerance(rtol or 0.0, atol or 0.0)
        elif self.tolerance is not None:
            tolerance = numerics.Tolerance(*self.tolerance)
        self.differences = numerics.compare(
            self.eager.values,
            self.regional.values,
            None if self.reference is None else self.reference.values,
            precision=self.precision,
            tolerance=tolerance,
        )
        wrong = [d for d in self.differences if d.problem is not None]
        if wrong:
            lines = "\n".join(f"  {difference}" for difference in wrong)
            raise CheckError(
                f"{self._where}: the compiled regions do not compute what eager does\n{lines}\n"
                f"{self._region_list()}"
            )

    def check_gradient_accumulation(self) -> None:
        """Hold the tagged additions of gradients against those that eager's engine made.

        Only where the backward has run: with ``backward=False`` there is nothing to hold them
        against.

        Raises :class:`~pytest_fxregion.errors.CheckError` naming what was summed and from where.
        """
        __tracebackhide__ = True
        if not self.eager.cotangents:
            return
        joint = [graph.joint.graph for graph in self.graphs if graph.joint is not None]
        found = disagreements(self.tracked.eager, self.tracked.between_graphs, joint)
        if found:
            lines = "\n".join(f"  {text}" for text in found)
            raise CheckError(f"{self._where}: gradients are not summed as in eager\n{lines}")

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
        self.check_numerics()
        self.check_gradient_accumulation()
        self.check_snapshot()

    def report(self) -> str:
        """Return the graphs and the checked numbers, as ``--fxregion-show`` prints them."""
        graphs = (
            f"---- {section.title} ----\n{section.text}\n" for section in self.document.sections
        )
        numbers = (f"  {difference}" for difference in self.differences)
        sums = (f"  {accumulation}" for accumulation in self.tracked.eager)
        parts = [*graphs, "---- numbers ----", *numbers]
        if self.tracked.eager:
            parts += ["\n---- sums of gradients, in eager ----", *sums]
        return "\n".join(parts)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the terminal summary's row, as plain values."""
        graphs = self.graphs

        def regions(*stages: str) -> int:
            return sum(len(r.regions) for g in graphs for r in g.stages() if r.stage in stages)

        worst = self.worst
        return {
            "name": self.name,
            "graphs": len(graphs),
            "regions_forward": regions("forward", "inference"),
            "regions_backward": regions("backward"),
            "nodes": sum(r.node_count for g in graphs for r in g.stages() if r.stage != "joint"),
            "saved_bytes": sum(r.saved_bytes for g in graphs for r in g.stages()),
            "gradient_accumulations": sum(
                len(g.joint.gradient_accumulations) for g in graphs if g.joint is not None
            ),
            "worst_error": None if worst is None else worst.relative_error,
            "worst_name": None if worst is None else worst.name,
            "seconds": self.seconds,
        }

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

    def _region_list(self) -> str:
        return "\n".join(
            f"  {region.kind} {region.name} (region {region.label}): {', '.join(region.sources)}"
            for region in self.regions
        )


class FxRegion:
    """Compiles functions with their annotated regions, for one test.

    Call it with a function or module and its inputs.  The factories make inputs on the device under
    test from a generator that is seeded by the test's name.
    """

    def __init__(
        self,
        *,
        test: str,
        root: Path,
        device: Device,
        stages: tuple[str, ...],
        provenance: str,
        snapshot: SnapshotCheck,
        dynamic: bool | None = None,
        tolerance: tuple[float, float] | None = None,
    ) -> None:
        self.device = torch.device(device.torch_device)
        self.runs: list[RegionRun] = []
        self.seed = int.from_bytes(hashlib.sha256(test.encode()).digest()[:4], "big")
        self._generator = torch.Generator().manual_seed(self.seed)
        self._test = test
        self._root = root
        self._stages = stages
        self._provenance = provenance
        self._snapshot = snapshot
        self._dynamic = dynamic
        self._tolerance = tolerance

    def __call__(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        name: str | None = None,
        dynamic: bool | None = None,
        backward: bool = True,
        grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> RegionRun:
        """Run ``function(*args, **kwargs)`` in eager and with its regions compiled.

        ``name`` tells several runs of one test apart.  ``dynamic`` is ``torch.compile``'s.  The
        backward runs where an output requires gradients, unless ``backward`` is false, from
        ``grad_outputs`` (one tensor for each such output) or from seeded random ones.  Inputs are
        copied for each run and stay as they are; so do a module's parameters and buffers.
        """
        start = perf_counter()
        dynamic = self._dynamic if dynamic is None else dynamic
        if isinstance(grad_outputs, torch.Tensor):
            grad_outputs = (grad_outputs,)
        call = Call(function, args, kwargs)
        eager, expected = self._run_eager(call, backward, grad_outputs)
        cotangents = eager.cotangents or None
        reference, precision = self._run_in_float64(call, backward, cotangents, eager)
        capture = Capture(self._root, self._provenance)
        between_graphs = EagerAccumulations(self._root)
        with (
            only_torchs_own_trace(),
            compiler_reset(),
            patched_inductor_config({"fallback_random": True}),
        ):
            regional = execute(
                call,
                run=torch.compile(function, backend=RegionalBackend(capture), dynamic=dynamic),
                seed=self.seed,
                backward=backward,
                grad_outputs=cotangents,
                before_backward=between_graphs.watch_call,
            )
        run = RegionRun(
            test=self._test,
            name=name,
            compilation=capture.result(),
            eager=eager,
            regional=regional,
            reference=reference,
            precision=precision,
            tracked=Tracked(expected, between_graphs.found()),
            provenance=self._provenance,
            stages=self._stages,
            seconds=perf_counter() - start,
            snapshot=self._snapshot,
            tolerance=self._tolerance,
        )
        self.runs.append(run)
        return run

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Seed torch's own generators by the test's name, for parameters that a test initialises.

        The CPU's is as before afterwards.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            yield

    def randn(self, *size: int, requires_grad: bool = False, **options: Any) -> torch.Tensor:
        """Return a seeded normal tensor on the device; ``options`` are ``torch.randn``'s."""
        return self._place(torch.randn(*size, generator=self._generator, **options), requires_grad)

    def rand(self, *size: int, requires_grad: bool = False, **options: Any) -> torch.Tensor:
        """Return a seeded uniform tensor in [0, 1) on the device."""
        return self._place(torch.rand(*size, generator=self._generator, **options), requires_grad)

    def randint(self, low: int, high: int, size: Sequence[int], **options: Any) -> torch.Tensor:
        """Return seeded integers from ``low`` to ``high - 1`` on the device."""
        drawn = torch.randint(low, high, tuple(size), generator=self._generator, **options)
        return self._place(drawn, False)

    def zeros(self, *size: int, requires_grad: bool = False, **options: Any) -> torch.Tensor:
        """Return zeros on the device."""
        return self._place(torch.zeros(*size, **options), requires_grad)

    def ones(self, *size: int, requires_grad: bool = False, **options: Any) -> torch.Tensor:
        """Return ones on the device."""
        return self._place(torch.ones(*size, **options), requires_grad)

    def tensor(self, data: Any, requires_grad: bool = False, **options: Any) -> torch.Tensor:
        """Return ``torch.tensor(data)`` on the device."""
        return self._place(torch.tensor(data, **options), requires_grad)

    def arange(self, *bounds: float, **options: Any) -> torch.Tensor:
        """Return ``torch.arange(*bounds)`` on the device."""
        return self._place(torch.arange(*bounds, **options), False)

    def _place(self, tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
        return tensor.to(self.device).requires_grad_(requires_grad)

    def _run_eager(
        self, call: Call, backward: bool, grad_outputs: Sequence[torch.Tensor] | None
    ) -> tuple[Results, tuple[Accumulation, ...]]:
        watched = EagerAccumulations(self._root)
        # Anomaly mode keeps for every autograd node the line of the forward that made it.
        with torch.autograd.set_detect_anomaly(True, check_nan=False), unfolded_checkpoints():
            eager = execute(
                call,
                seed=self.seed,
                backward=backward,
                grad_outputs=grad_outputs,
                before_backward=watched.watch_call,
            )
        return eager, watched.found()

    def _run_in_float64(
        self,
        call: Call,
        backward: bool,
        cotangents: Sequence[torch.Tensor] | None,
        eager: Results,
    ) -> tuple[Results | None, torch.dtype | None]:
        """Return the float64 results where they are a reference, and the precision in use if not.

        They are none where random numbers are drawn (another dtype draws others), or where the
        function itself computes in a lower precision.
        """
        watch = PrecisionWatch()
        try:
            wide = call.in_float64()
            wide_cotangents = None if cotangents is None else [widened(c) for c in cotangents]
            with watch:
                results = execute(
                    wide, seed=self.seed, backward=backward, grad_outputs=wide_cotangents
                )
        except Exception:  # A function that fixes a dtype somewhere may fail in any way at all.
            return None, watch.lowest
        if eager.used_randomness or watch.lowest not in (None, torch.float64):
            return None, watch.lowest
        return results, None


@contextmanager
def only_torchs_own_trace() -> Iterator[None]:
    """Keep foreign handlers off torch's structured trace.

    pytest 9 puts its own on every logger that does not propagate.  Torch then writes the whole
    trace, and a failure's captured log is hundreds of empty lines.
    """
    trace = logging.getLogger("torch.__trace")
    handlers = trace.handlers
    trace.handlers = [h for h in handlers if type(h).__module__.startswith("torch.")]
    try:
        yield
    finally:
        trace.handlers = handlers


@contextmanager
def compiler_reset() -> Iterator[None]:
    """Forget everything compiled, before and after: the order of tests changes nothing."""
    reset_compiler()
    try:
        yield
    finally:
        reset_compiler()
