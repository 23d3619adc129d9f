"""The object behind the ``fxregion`` fixture.

Comes in: a function or module with inputs.  Goes out: a :class:`~pytest_fxregion.run.RegionRun`:
the records of the compilation, and the results of eager, float64 and regional on the same inputs.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import torch

from pytest_fxregion._torch.dynamo import as_written, graph_breaks, reset_compiler
from pytest_fxregion._torch.inductor import patched_inductor_config
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.call import Call, widened
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.capture.partitioning import memory_budgets_ignored
from pytest_fxregion.capture.record import Compilation
from pytest_fxregion.checks.annotations import AnnotatedLines, describe, lost_lines
from pytest_fxregion.checks.as_traced import (
    only_torchs_own_trace,
    uncached_autocast,
    unfolded_checkpoints,
)
from pytest_fxregion.checks.culprit import IsWrong, explain, script_files, script_name
from pytest_fxregion.checks.culprit.pieces import compiled_pieces
from pytest_fxregion.checks.gradient_accumulation import (
    EagerAccumulations,
    checkpoints_watched,
)
from pytest_fxregion.checks.numerics import Tolerance
from pytest_fxregion.checks.outside import results_outside
from pytest_fxregion.checks.roundings import Samples
from pytest_fxregion.checks.traced_accumulations import Tracked
from pytest_fxregion.contents import drawing_from, random_numbers
from pytest_fxregion.device import Device
from pytest_fxregion.device.virtual.launches import recorded
from pytest_fxregion.errors import CheckError, FxRegionError, FxRegionWarning
from pytest_fxregion.execution import Again, PrecisionWatch, Results, execute, stream_seed
from pytest_fxregion.kernels.execution import execution_record
from pytest_fxregion.kernels.machine_code import compile_kernels
from pytest_fxregion.progress import step
from pytest_fxregion.run import RegionRun, SnapshotCheck

E = TypeVar("E", bound=Exception)


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
        machine_code: bool = False,
        strict: bool = False,
        artifacts: Path | None = None,
    ) -> None:
        self.device = torch.device(device.torch_device)
        self._device = device
        self.runs: list[RegionRun] = []
        self.seed = int.from_bytes(hashlib.sha256(test.encode()).digest()[:4], "big")
        self._generator = torch.Generator().manual_seed(stream_seed(self.seed, "inputs"))
        self._test = test
        self._root = root
        self._stages = stages
        self._provenance = provenance
        self._snapshot = snapshot
        self._dynamic = dynamic
        self._tolerance = tolerance
        self._machine_code = machine_code
        self._strict = strict
        self._artifacts = artifacts

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
        A function that is compiled already is run, and compiled, as it was written.
        """
        if not callable(function):
            raise FxRegionError(
                f"{self._test}: fxregion takes a function or module, then its arguments; "
                f"the first is of type {type(function).__name__}"
            )
        start = perf_counter()
        dynamic = self._dynamic if dynamic is None else dynamic
        if isinstance(grad_outputs, torch.Tensor):
            grad_outputs = (grad_outputs,)
        function = as_written(function)
        call = Call(function, args, kwargs)
        self._forget_scripts(name)
        annotated = AnnotatedLines()
        draws = tuple(random_numbers())
        step("running eagerly")
        eager, watched = self._run_eager(call, backward, grad_outputs, annotated)
        cotangents = eager.cotangents or None
        step("running in float64")
        reference, precision = self._run_in_float64(call, backward, cotangents, eager)
        capture = Capture(self._root, self._provenance)
        between_graphs = EagerAccumulations(self._root)
        step("tracing and compiling")
        with (
            only_torchs_own_trace(),
            compiler_reset(),
            double_backward_explained(self._test),
            patched_inductor_config({"fallback_random": True}),
            recorded() as launches,
        ):
            compiled = torch.compile(function, backend=RegionalBackend(capture), dynamic=dynamic)
            known_breaks = graph_breaks()
            with checkpoints_watched(between_graphs):
                regional = execute(
                    call,
                    run=compiled,
                    seed=self.seed,
                    backward=backward,
                    grad_outputs=cotangents,
                    before_backward=between_graphs.watch_call,
                )
            compilation = capture.result()
            again = Again(call, self.seed, backward, eager.cotangents, dynamic, draws)
            tracked = Tracked(
                watched.found(), between_graphs.found(), watched.movable(), between_graphs.empty()
            )
            outside = results_outside(
                compiled_pieces(compilation),
                regional=lambda: again.run(compiled),
                results=regional.values,
                tracked=tracked,
            )
            if len(capture.result().graphs) != len(compilation.graphs):
                outside = frozenset()  # it was compiled anew, with regions that gave their own

        def reference_again() -> Mapping[str, Any]:
            with drawing_from(draws):
                wide, _ = self._run_in_float64(call, backward, cotangents, eager)
            return {} if wide is None else wide.values

        machine_code = compile_kernels(compilation.kernels) if self._machine_code else ()
        run = RegionRun(
            test=self._test,
            name=name,
            compilation=compilation,
            eager=eager,
            regional=regional,
            reference=reference,
            precision=precision,
            outside=outside,
            eager_again=partial(eager_again, again),
            reference_again=reference_again,
            samples=Samples(partial(eager_again, again), self.seed),
            explain=partial(self._explain, again, name),
            tracked=tracked,
            provenance=self._provenance,
            stages=self._stages,
            seconds=perf_counter() - start,
            snapshot=self._snapshot,
            tolerance=self._tolerance,
            machine_code=machine_code,
            execution=execution_record(self._device, compilation, launches, machine_code),
        )
        self.runs.append(run)
        step("")
        reasons = (graph_breaks() - known_breaks).keys()
        broken = tuple(dict.fromkeys(reason.partition("\n")[0] for reason in reasons))
        self._report_lost_annotations(annotated, compilation, broken)
        return run

    def raises(
        self,
        expected: type[E],
        function: Callable[..., Any],
        /,
        *args: Any,
        dynamic: bool | None = None,
        backward: bool = True,
        **kwargs: Any,
    ) -> E:
        """Hold a call with bad input to eager: both runs must raise ``expected``; returns eager's.

        Raises :class:`~pytest_fxregion.errors.CheckError` if one of them gives a result, or if
        torch.compile raises what code that catches eager's exception would not catch.
        """
        function = as_written(function)
        call = Call(function, args, kwargs)
        dynamic = self._dynamic if dynamic is None else dynamic
        compiled = torch.compile(function, backend=RegionalBackend(), dynamic=dynamic)
        raised: list[Exception] = []
        for which, run in (("eager", None), ("the regional run", compiled)):
            with only_torchs_own_trace(), compiler_reset():
                try:
                    execute(call, run=run, seed=self.seed, backward=backward)
                except Exception as error:
                    raised.append(error)
                else:
                    raise CheckError(
                        f"{self._test}: {which} raises nothing, not {expected.__name__}"
                    )
            kind = expected if which == "eager" else type(raised[0])
            if not isinstance(raised[-1], kind):
                raise CheckError(
                    f"{self._test}: {which} raises {type(raised[-1]).__name__}, "
                    f"not {kind.__name__}: {raised[-1]}"
                ) from raised[-1]
        assert isinstance(raised[0], expected)
        return raised[0]

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Seed torch's own generators by the test's name, for parameters that a test initialises.

        The CPU's is as before afterwards.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(self.seed, "parameters"))
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
        self,
        call: Call,
        backward: bool,
        grad_outputs: Sequence[torch.Tensor] | None,
        annotated: AnnotatedLines,
    ) -> tuple[Results, EagerAccumulations]:
        watched = EagerAccumulations(self._root)
        # Anomaly mode keeps for every autograd node the line of the forward that made it.
        lines = torch.autograd.set_detect_anomaly(True, check_nan=False)
        with as_traced(), lines:
            eager = execute(
                call,
                seed=self.seed,
                backward=backward,
                grad_outputs=grad_outputs,
                before_backward=watched.watch_call,
                watch=annotated,
            )
        return eager, watched

    def _forget_scripts(self, name: str | None) -> None:
        """Remove what an earlier run of the test has shown."""
        if self._artifacts is not None:
            for script in script_files(self._artifacts / script_name(self._test, name)):
                with suppress(OSError):  # a folder that cannot be written is no fault of the test
                    script.unlink()

    def _explain(
        self, again: Again, name: str | None, is_wrong: IsWrong, tolerance: Tolerance | None
    ) -> str:
        """Say which region makes the results wrong, and with which command it can be seen."""
        scripts = None
        if self._artifacts is not None:
            scripts = self._artifacts / script_name(self._test, name)
        with only_torchs_own_trace():
            return explain(
                again,
                is_wrong,
                test=self._test,
                root=self._root,
                scripts=scripts,
                arch=self._device.arch,
                tolerance=tolerance,
            )

    def _report_lost_annotations(
        self, annotated: AnnotatedLines, compilation: Compilation, breaks: tuple[str, ...]
    ) -> None:
        graphs = len(compilation.graphs)
        is_whole = graphs == 1 and not breaks
        lost = lost_lines(annotated, compilation.regions, is_whole=is_whole)
        texts = [describe(lost, self._root, graphs, breaks)] if lost else []
        texts += compilation.losses
        devices = compilation.devices
        if devices and self.device.type not in devices:
            texts.append(
                f"nothing of what was compiled is on {self.device}, all of it is on "
                f"{', '.join(sorted(devices))}: make inputs with fxregion.randn and the like, or "
                "move them and the module to fxregion.device"
            )
        if self._strict and texts:
            raise CheckError("\n".join(f"{self._test}: {text}" for text in texts))
        for text in texts:
            warnings.warn(f"{self._test}: {text}", FxRegionWarning, stacklevel=3)

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
            # What the function warns of is said in eager; copies of its state may warn of more.
            with (
                only_torchs_own_trace(),
                memory_budgets_ignored(),
                warnings.catch_warnings(action="ignore"),
            ):
                results = execute(
                    wide,
                    seed=self.seed,
                    backward=backward,
                    grad_outputs=wide_cotangents,
                    watch=watch,
                )
        except Exception:  # A function that fixes a dtype somewhere may fail in any way at all.
            return None, watch.lowest
        if eager.used_randomness or watch.lowest not in (None, torch.float64):
            return None, watch.lowest
        return results, None


@contextmanager
def as_traced() -> Iterator[None]:
    """Have eager sum gradients where a traced function does."""
    # Eager's `cond` and `while_loop` are built on torch.compile.
    with (
        only_torchs_own_trace(),
        unfolded_checkpoints(),
        uncached_autocast(),
        memory_budgets_ignored(),
    ):
        yield


def eager_again(again: Again) -> dict[str, Any]:
    """Run a call in eager once more."""
    with as_traced():
        return again.run()


@contextmanager
def double_backward_explained(test: str) -> Iterator[None]:
    """Say what to do where a function differentiates through its own compiled part."""
    try:
        yield
    except RuntimeError as error:
        if "double backward" not in str(error):
            raise
        raise FxRegionError(
            f"{test}: gradients of gradients do not flow through a compiled graph ({error}). "
            "Take the first gradient inside of the function with torch.func.grad or torch.func.vjp,"
            " which are traced: then its own backward gives second-order gradients"
        ) from error


@contextmanager
def compiler_reset() -> Iterator[None]:
    """Forget everything compiled, before and after: the order of tests changes nothing."""
    reset_compiler()
    try:
        yield
    finally:
        reset_compiler()
