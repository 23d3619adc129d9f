"""The ``fxregion`` object: what it makes, runs, remembers and refuses.  Nothing here is compiled
by Inductor: the functions have no annotation, or one that is lost.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.traceback import annotate
from torch.testing._internal.two_tensor import TwoTensor

from pytest_fxregion import FxRegion
from pytest_fxregion.checks.as_traced import only_torchs_own_trace
from pytest_fxregion.device import CPU
from pytest_fxregion.errors import CheckError, FxRegionError, FxRegionWarning
from pytest_fxregion.options import STAGES
from pytest_fxregion.snapshots.document import Document


class Snapshots(list[tuple[str | None, Document]]):
    """Takes every document for the stored one, and remembers it."""

    def __call__(self, document: Document, *, name: str | None) -> None:
        self.append((name, document))


def harness(test: str = "test_it", **options: Any) -> FxRegion:
    given: dict[str, Any] = {
        "root": Path(__file__).parent,
        "device": CPU,
        "stages": STAGES,
        "provenance": "torch 9 | cpu",
        "snapshot": Snapshots(),
    }
    return FxRegion(test=test, **{**given, **options})


def waves(x: Tensor) -> Tensor:
    return x.sin() + x.cos()


# --- inputs ---


def test_inputs_are_seeded_by_the_tests_name() -> None:
    one, again, other = harness("a"), harness("a"), harness("b")
    first = one.randn(4)
    assert torch.equal(first, again.randn(4))
    assert not torch.equal(first, one.randn(4))
    assert not torch.equal(first, other.randn(4))


def test_inputs_do_not_touch_torchs_generator() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    fxregion = harness()
    fxregion.randn(2), fxregion.rand(2), fxregion.randint(0, 5, (2,))
    assert torch.equal(before, torch.get_rng_state())
    with fxregion.seeded():
        first = torch.rand(2)
    with fxregion.seeded():
        assert torch.equal(first, torch.rand(2))
    assert torch.equal(before, torch.get_rng_state())


def test_inputs_parameters_cotangents_and_noise_are_other_numbers() -> None:
    """One along the other, a normalization's gradient is zero, and nothing is checked."""
    fxregion = harness()
    x = fxregion.randn(4, 16, requires_grad=True)
    with fxregion.seeded():
        weight = torch.randn(4, 16)
    drawn: list[Tensor] = []

    def noisy(x: Tensor) -> Tensor:
        noise = torch.randn_like(x)
        if not torch.compiler.is_compiling():
            drawn.append(noise)
        return x + noise

    (cotangent,) = fxregion(noisy, x).eager.cotangents
    streams = [x.detach(), weight, drawn[0], cotangent]
    for k, one in enumerate(streams):
        for other in streams[:k]:
            assert abs(torch.cosine_similarity(one.flatten(), other.flatten(), dim=0)) < 0.5


def test_factories() -> None:
    fxregion = harness()
    assert fxregion.randn(2, 3, requires_grad=True, dtype=torch.float64).is_leaf
    assert fxregion.randn(2, requires_grad=True).requires_grad
    assert 0 <= fxregion.rand(50).min() <= fxregion.rand(50).max() < 1
    drawn = fxregion.randint(3, 5, (50,))
    assert set(drawn.tolist()) == {3, 4}
    assert fxregion.zeros(2).tolist() == [0, 0]
    assert fxregion.ones(1, 2).tolist() == [[1, 1]]
    assert fxregion.tensor([1.5], requires_grad=True).requires_grad
    assert fxregion.arange(1, 4).tolist() == [1, 2, 3]
    assert fxregion.zeros(1).device == fxregion.device


# --- runs ---


def test_a_run_has_the_stages_of_training() -> None:
    fxregion = harness()
    run = fxregion(waves, fxregion.randn(3, requires_grad=True))
    assert [g.stage for g in (run.joint, run.forward, run.backward)] == [
        "joint",
        "forward",
        "backward",
    ]
    assert run.joint.gradient_accumulations == run.backward.gradient_accumulations
    with pytest.raises(FxRegionError, match="no inference graph here, only joint, forward, back"):
        _ = run.inference


def test_a_run_without_backward_has_a_joint_graph_all_the_same() -> None:
    fxregion = harness()
    run = fxregion(waves, fxregion.randn(3, requires_grad=True), backward=False)
    assert run.gradients == {}
    assert run.joint.text
    run.check()


def test_a_run_of_inference() -> None:
    fxregion = harness()
    run = fxregion(waves, fxregion.randn(3))
    assert run.inference.node_count == 3
    with pytest.raises(FxRegionError, match="no backward graph here, only inference"):
        _ = run.backward


def test_a_function_of_which_nothing_is_compiled_says_so() -> None:
    run = harness()(lambda x: x, torch.ones(2))
    with pytest.raises(FxRegionError, match="nothing was compiled"):
        _ = run.forward


def test_gradients_may_be_asked_for_from_given_cotangents() -> None:
    fxregion = harness()
    x = fxregion.ones(2, requires_grad=True)
    run = fxregion(lambda x: x * 3, x, grad_outputs=torch.tensor([1.0, 2.0]))
    assert run.gradients["x"].tolist() == [3, 6]
    run = fxregion(lambda x: (x * 3, x * 5), x, grad_outputs=[torch.ones(2), torch.zeros(2)])
    assert run.gradients["x"].tolist() == [3, 3]
    assert x.grad is None


class Waves(nn.Linear):
    """A module that is not torch's own: in place, dynamo compiles no others."""

    def forward(self, x: Tensor) -> Tensor:
        return waves(super().forward(x))


class Halves(nn.Module):
    """Its first half may be compiled by itself, in place or not."""

    def __init__(self) -> None:
        super().__init__()
        self.first: nn.Module = Waves(2, 2)
        self.second = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Any:
        h = self.first(x)
        with annotate({"compile_with_inductor": 0}):
            h = h.sin() * 2
        return self.second(h)


def compiled_whole(model: Halves) -> Any:
    return torch.compile(model, backend=never)


def compiled_in_place(model: Halves) -> Any:
    model.compile(backend=never)
    return model


def half_compiled(model: Halves) -> Any:
    model.first = torch.compile(model.first, backend=never)  # type: ignore[assignment]
    return model


def half_compiled_in_place(model: Halves) -> Any:
    model.first.compile(backend=never)
    return model


def compiled_function(model: Halves) -> Any:
    return torch.compile(lambda x: model(x), backend=never)


def function_of_compiled(model: Halves) -> Any:
    compiled = torch.compile(model, backend=never)
    return lambda x: compiled(x)


def never(graph: Any, inputs: Any) -> Any:
    raise AssertionError("what is compared with the compiled run was compiled itself")


@pytest.mark.parametrize(
    "compiled_already",
    [
        compiled_whole,
        compiled_in_place,
        half_compiled,
        half_compiled_in_place,
        compiled_function,
        function_of_compiled,
    ],
)
def test_what_is_compiled_already_is_run_and_compiled_as_it_was_written(
    compiled_already: Callable[[Halves], Any],
) -> None:
    function = compiled_already(Halves())
    fxregion = harness(strict=True)
    run = fxregion(function, fxregion.randn(3, 2, requires_grad=True))
    run.check()
    assert len(run.forward.regions) == 1
    assert len(run.gradients) == 5
    assert any(differs.error for differs in run.differences)  # compiled is not held to compiled
    with pytest.raises(Exception, match="was compiled itself"):
        function(torch.ones(3, 2))  # it is still compiled for everybody else


def test_dynamic_comes_from_the_marker_unless_the_call_says_otherwise() -> None:
    fxregion = harness(dynamic=True)
    assert "s" in fxregion(waves, torch.ones(6)).inference.text.split('"')[1]
    assert "f32[6]" in fxregion(waves, torch.ones(6), dynamic=False).inference.text


def test_the_order_of_runs_changes_nothing() -> None:
    def recompiled(x: Tensor, n: int) -> Tensor:
        return x * n

    alone = harness()(recompiled, torch.ones(3), 2).inference.text
    fxregion = harness()
    for n in (5, 4, 3):
        fxregion(recompiled, torch.ones(n), n)
    assert fxregion(recompiled, torch.ones(3), 2).inference.text == alone


def test_checks_come_in_order_and_a_wrong_result_is_never_recorded() -> None:
    def wrong(x: Tensor) -> Tensor:
        return x * (1.1 if torch.compiler.is_compiling() else 1.0)

    snapshots = Snapshots()
    fxregion = harness(snapshot=snapshots)
    with pytest.raises(CheckError, match="test_it, run 'here': the compiled regions do not"):
        fxregion(wrong, fxregion.randn(3), name="here").check()
    assert snapshots == []
    fxregion(waves, fxregion.randn(3), name="here").check()
    assert [name for name, _ in snapshots] == ["here"]
    fxregion(waves, fxregion.randn(3)).check_snapshot("there")
    assert [name for name, _ in snapshots] == ["here", "there"]
    assert snapshots[0][1].provenance == "torch 9 | cpu"


def test_random_numbers_are_the_same_in_eager_and_compiled() -> None:
    fxregion = harness()
    run = fxregion(lambda x: torch.nn.functional.dropout(x), fxregion.ones(64, requires_grad=True))
    run.check_numerics(exact=True)
    assert run.reference is None


TABLE = torch.ones(3)


def test_a_tensor_that_nothing_is_computed_with_is_no_lower_precision() -> None:
    fxregion = harness()
    run = fxregion(lambda x: x.sin() * TABLE.shape[0], fxregion.randn(3))
    assert run.reference is not None
    assert run.precision is None
    assert fxregion(lambda x: x.sin() * TABLE, fxregion.randn(3)).precision == torch.float32


def test_the_figures_of_a_run_are_plain_values() -> None:
    import json

    fxregion = harness()
    run = fxregion(waves, fxregion.randn(3, requires_grad=True), name="it")
    before = run.summary()
    assert before["worst_of_allowed"] is None
    run.check_numerics()
    after = json.loads(json.dumps(run.summary()))
    assert after["worst_of_allowed"] == 0.0  # no region has a part in anything
    assert after["worst_name"] in ("output", "gradient of x")
    for name, value in {
        "name": "it",
        "graphs": 1,
        "regions_forward": 0,
        "gradient_accumulations": 1,
        "saved_bytes": 12,
    }.items():
        assert after[name] == value


def test_sums_in_the_body_of_a_nested_region_count_for_each_call() -> None:
    layer = torch.compiler.nested_compile_region(waves)
    run = harness()(lambda x: layer(layer(x)), torch.ones(3, requires_grad=True))
    assert run.summary()["gradient_accumulations"] == 2


def test_a_runs_report_shows_graphs_numbers_and_sums() -> None:
    fxregion = harness()
    run = fxregion(waves, fxregion.randn(3, requires_grad=True))
    run.check_numerics()
    for part in ("---- joint ----", "output: error", "x (float32[3]): 2 gradients"):
        assert part in run.report()


# --- what is compared besides numbers ---


def test_subclasses_and_arguments_in_one_memory_are_run_and_compared() -> None:
    fxregion = harness()
    two = TwoTensor(fxregion.randn(3), fxregion.randn(3)).requires_grad_()
    run = fxregion(lambda x: (x * 2).sin(), two)
    run.check()
    assert isinstance(run.outputs, TwoTensor)
    assert "gradient of x.b" in run.regional.values

    def written(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return a + b

    base = fxregion.randn(6)
    run = fxregion(written, base[:4], base[2:])
    run.check_numerics()
    assert {"a after the call", "b after the call"} < run.regional.values.keys()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_tensors_that_are_spread_over_a_mesh_are_run_and_compared() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def function(x: Tensor, w: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            return (x @ w).relu() + x

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local(torch.randn(2, 4), mesh, [Shard(0)])
        w = DTensor.from_local(torch.randn(4, 4), mesh, [Replicate()])
        run = harness()(function, x.requires_grad_(), w.requires_grad_())
        run.check()
    finally:
        torch.distributed.destroy_process_group()
    assert run.regions
    assert {"output._local_tensor", "gradient of w._local_tensor"} <= run.regional.values.keys()


def test_an_output_that_is_a_copy_where_eager_gives_a_view_is_a_fault() -> None:
    def function(x: Tensor) -> Tensor:
        view = x[1:]
        return view.clone() if torch.compiler.is_compiling() else view

    with pytest.raises(CheckError, match=r"output in the memory of x: only the eager run has it"):
        harness()(function, torch.ones(3)).check_numerics()


def test_another_state_of_the_generator_afterwards_is_a_fault() -> None:
    def function(x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            x = x + 0 * torch.rand(3)
        return x + torch.rand(3) * 0

    with pytest.raises(CheckError, match="random state of cpu after the call: eager gives"):
        harness()(function, torch.ones(3)).check_numerics()


def test_second_order_gradients_are_those_of_a_function_that_differentiates() -> None:
    def energy(x: Tensor) -> Tensor:
        return (x.sin() * x).sum()

    fxregion = harness()
    x = fxregion.randn(4, requires_grad=True)
    run = fxregion(torch.func.grad(energy), x, grad_outputs=torch.ones(4))
    run.check()
    second = (2 * x.cos() - x * x.sin()).detach()
    torch.testing.assert_close(run.gradients["x"], second)


def test_a_backward_through_a_compiled_backward_is_refused_with_what_to_do() -> None:
    def function(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return first

    fxregion = harness()
    with pytest.raises(FxRegionError, match=r"gradients of gradients do not flow .*torch\.func"):
        fxregion(function, fxregion.randn(3, requires_grad=True))


# --- exceptions ---


def picked(x: Tensor, number: int) -> Tensor:
    if number < 0:
        raise ValueError("from the front only")
    return x[number] * 2


def test_exceptions_of_eager_and_compiled_are_the_same() -> None:
    fxregion = harness()
    error = fxregion.raises(ValueError, picked, torch.ones(3), -1)
    assert str(error) == "from the front only"
    fxregion.raises(RuntimeError, torch.mm, torch.ones(2, 3), torch.ones(2, 3))


@pytest.mark.skipif(
    torch.__version__ < (2, 13),  # type: ignore[operator]
    reason="torch 2.11 raises its own TorchRuntimeError for an index that is out of bounds",
)
def test_an_index_out_of_bounds_is_the_same_exception() -> None:
    assert "out of bounds" in str(harness().raises(IndexError, picked, torch.ones(3), 7))


@pytest.mark.parametrize(
    ("expected", "function", "text"),
    [
        (ValueError, waves, "test_it: eager raises nothing, not ValueError"),
        (ValueError, lambda x: x[9], "test_it: eager raises IndexError, not ValueError: index 9"),
        (TypeError, lambda x: x + "a", "the regional run raises TorchRuntimeError, not TypeError"),
        (
            IndexError,
            lambda x: x if torch.compiler.is_compiling() else x[9],
            "test_it: the regional run raises nothing, not IndexError",
        ),
    ],
)
def test_another_exception_or_none_is_a_fault(
    expected: type[Exception], function: Callable[..., Any], text: str
) -> None:
    with pytest.raises(CheckError) as raised:
        harness().raises(expected, function, torch.ones(3))
    assert text in str(raised.value)


# --- annotations that come to nothing ---


def broken_in_the_block(x: Tensor) -> Tensor:
    with annotate({"compile_with_inductor": 0}):
        torch._dynamo.graph_break()
        h = x.sin()
    return h.cos()


def broken_at_the_end_of_the_block(x: Tensor) -> Tensor:
    with annotate({"compile_with_inductor": 0}):
        h = x.sin()
        torch._dynamo.graph_break()
    return h.cos()


def broken_in_a_loop(x: Tensor) -> Tensor:
    for _ in range(2):  # all of the function is left to eager, but what it calls
        with annotate({"compile_with_inductor": 0}):
            x = x.sin()
        torch._dynamo.graph_break()
    return waves(x)


def unused(x: Tensor) -> Tensor:
    with annotate({"compile_with_inductor": 0}):
        x.sin()
    return x.cos()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken_in_the_block, "an annotation ends where a graph breaks"),
        (
            broken_at_the_end_of_the_block,
            r"was not compiled \(Call to `torch._dynamo.graph_break\(\)`\)",
        ),
        (
            broken_in_a_loop,
            r"compiled in part \(Call to `torch._dynamo.graph_break\(\)`\)",
        ),
        (unused, "nothing uses its results"),
    ],
)
def test_annotated_code_that_is_in_no_region_is_said(
    function: Callable[..., Any], reason: str
) -> None:
    with pytest.warns(FxRegionWarning, match=reason) as said:
        harness()(function, torch.ones(2))
    assert "test_harness.py:" in str(said[0].message)
    with pytest.raises(CheckError, match=reason):
        harness(strict=True)(function, torch.ones(2))


def test_why_a_graph_breaks_is_said_whatever_broke_another_before() -> None:
    def one(x: Tensor) -> Tensor:
        torch._dynamo.graph_break("one")
        return x.sin()

    def other(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            torch._dynamo.graph_break("other")
            return x.sin()

    harness()(one, torch.ones(2))
    with pytest.warns(FxRegionWarning, match=r"graph_break\(\)"):
        harness()(other, torch.ones(2))


class Saved(torch.autograd.Function):
    """Saves its result: in eager, the line that applies it runs an operation, to detach it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        twice = x + x
        ctx.save_for_backward(twice)
        return twice

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.saved_tensors[0] * gradient


def test_a_line_that_applies_a_custom_function_is_compiled_where_its_forward_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            y: Tensor = Saved.apply(x)  # type: ignore[no-untyped-call]
        return y.cos()

    monkeypatch.setattr(torch._inductor, "standalone_compile", lambda body, *_, **__: body)
    harness(strict=True)(function, torch.ones(2, requires_grad=True))


def test_code_that_is_excluded_on_purpose_is_not() -> None:
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": None}):
            return x.sin()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        harness(strict=True)(function, torch.ones(2))


def test_foreign_handlers_are_kept_off_torchs_trace_and_put_back() -> None:
    trace = logging.getLogger("torch.__trace")
    before = list(trace.handlers)
    foreign = logging.NullHandler()
    trace.addHandler(foreign)
    try:
        with only_torchs_own_trace():
            assert foreign not in trace.handlers
        assert foreign in trace.handlers
    finally:
        trace.removeHandler(foreign)
    assert trace.handlers == before


def test_nothing_is_traced_into_the_tests_log_not_even_by_eagers_cond(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def branches(flag: Tensor, x: Tensor) -> Any:
        return torch.cond(flag, torch.sin, torch.cos, (x,))

    trace = logging.getLogger("torch.__trace")
    trace.addHandler(caplog.handler)
    try:
        harness()(branches, torch.tensor(True), torch.ones(2))
    finally:
        trace.removeHandler(caplog.handler)
    assert not caplog.records
