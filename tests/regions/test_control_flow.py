"""Higher-order operators: cond, while_loop, scan and nested regions, in and around annotations."""

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.fx.traceback import annotate


def test_cond_in_a_region(fxregion):
    def model(flag, x):
        with annotate({"compile_with_inductor": 0}):
            return torch.cond(flag, lambda x: x.sin() * 2, lambda x: x.cos() + x, (x,)) * 3

    run = fxregion(model, fxregion.tensor(True), fxregion.randn(5, requires_grad=True))
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]


@pytest.mark.parametrize("flag", [True, False])
def test_annotated_branch(fxregion, flag):
    def annotated(x):
        with annotate({"compile_with_inductor": 0}):
            return x.sin() * x + 1

    def model(flag, x):
        return torch.cond(flag, annotated, torch.cos, (x,)) * 3

    with torch.no_grad():
        run = fxregion(model, fxregion.tensor(flag), fxregion.randn(5))
    run.check()
    assert [r.label for r in run.inference.regions] == ["default"]


def test_while_loop_in_a_region(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": 0}):
            start = torch.zeros((), dtype=torch.int64, device=x.device)
            _, y = while_loop(
                lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5 + 1), (start, x.sin())
            )
            return y * 2

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5))
    run.check()
    assert [r.label for r in run.inference.regions] == ["default"]


def test_scan_in_a_region(fxregion):
    def step(carry, x):
        carry = carry * 0.5 + x.tanh()
        return carry, carry.clone()

    def model(state, xs):
        with annotate({"compile_with_inductor": 0}):
            return scan(step, state, xs)

    # Inductor makes a loop of it that reads its counter.
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        run = fxregion(model, fxregion.zeros(3), fxregion.randn(4, 3))
    run.check()
    assert [r.label for r in run.inference.regions] == ["default"]


def test_scan_with_gradients_around_a_region(fxregion):
    def step(carry, x):
        carry = carry * 0.5 + x.tanh()
        return carry, carry.clone()

    def model(state, xs, w):
        with annotate({"compile_with_inductor": 0}):
            driven = xs * w + 1
        return scan(step, state, driven)[1]

    run = fxregion(
        model,
        fxregion.zeros(3, requires_grad=True),
        fxregion.randn(4, 3, requires_grad=True),
        fxregion.randn(3, requires_grad=True),
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]


def test_nested_region_called_twice_is_compiled_once(fxregion):
    @nested_compile_region
    def layer(x, w):
        with annotate({"compile_with_inductor": {"inductor_region": "layer"}}):
            return (x * w).tanh() + x

    def model(x, w):
        return layer(layer(x, w), w).sin()

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, requires_grad=True)
    )
    run.check()
    assert {r.label for r in run.regions} == {"'layer'"}
    assert len(run.forward.regions) == 1


def test_nested_region_inside_an_annotation_is_taken_whole(fxregion):
    @nested_compile_region
    def layer(x):
        return x.tanh() * x

    def model(x):
        with annotate({"compile_with_inductor": 0}):
            return layer(layer(x)) + 1

    run = fxregion(model, fxregion.randn(4, 4, requires_grad=True))
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]


def test_branches_with_regions_and_gradients(fxregion):
    def scaled(x, w):
        with annotate({"compile_with_inductor": {"inductor_region": "scaled"}}):
            return (x * w).tanh() * 2

    def shifted(x, w):
        with annotate({"compile_with_inductor": {"inductor_region": "shifted"}}):
            return (x + w).sigmoid() + 1

    def model(flag, x, w):
        return torch.cond(flag, scaled, shifted, (x, w)).sin()

    run = fxregion(
        model,
        fxregion.tensor(False),
        fxregion.randn(4, requires_grad=True),
        fxregion.randn(4, requires_grad=True),
    )
    run.check()
    assert {r.label for r in run.regions} == {"'scaled'", "'shifted'"}


def test_region_inside_a_loop(fxregion):
    def halve(i, y):
        with annotate({"compile_with_inductor": {"inductor_region": "body"}}):
            y = y * 0.5 + y.sin()
        return i + 1, y

    def model(x):
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, y: i < 3, halve, (start, x))[1]

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5))
    run.check()
    assert [r.label for r in run.inference.regions] == ["'body'"]


def test_region_inside_a_scan(fxregion):
    def step(carry, x):
        with annotate({"compile_with_inductor": {"inductor_region": "step"}}):
            carry = (carry * 0.5 + x).tanh()
        return carry, carry.clone()

    def model(state, xs):
        return scan(step, state, xs)[1]

    with torch.no_grad():
        run = fxregion(model, fxregion.zeros(3), fxregion.randn(4, 3))
    run.check()
    assert [r.label for r in run.inference.regions] == ["'step'"]


def test_region_of_a_function_that_is_mapped_over_a_batch(fxregion):
    def one(x, w):
        with annotate({"compile_with_inductor": 0}):
            return (w @ x).tanh().sum()

    def model(xs, w):
        return torch.func.vmap(one, in_dims=(0, None))(xs, w)

    run = fxregion(
        model, fxregion.randn(3, 4, requires_grad=True), fxregion.randn(2, 4, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]
