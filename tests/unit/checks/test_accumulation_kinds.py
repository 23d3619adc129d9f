"""Sums of gradients where eager and the traced graph make them of different things, or in parts."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.testing._internal.two_tensor import TwoTensor

from pytest_fxregion import RegionRun
from pytest_fxregion.checks.gradient_accumulation import disagreements, misplaced
from pytest_fxregion.checks.traced_accumulations import accumulations_of, wrong_sums
from tests.unit.checks.running import run_of

ADD = torch.ops.aten.add.Tensor


def leaf(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).requires_grad_()


def complex_numbers(x: Tensor) -> Tensor:
    z = torch.complex(x, x * 2)
    return (z * z.conj()).real + z.abs() + (z * z).imag


def some_of_several_results(x: Tensor) -> Tensor:
    h = x.exp()
    largest, _ = h.topk(2, dim=1)
    _, mean = torch.var_mean(h, dim=1)
    return largest.sum() + mean.sum() + h.sum()


class OneGradientOfTwo(torch.autograd.Function):
    """Gives no gradient for its first operand."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor]:
        return None, g * 2


def an_undefined_gradient(x: Tensor) -> Tensor:
    apply: Any = OneGradientOfTwo.apply
    h = x.exp()
    result: Tensor = apply(h, h).sin() + h.cos()
    return result


def a_tangent_alone(x: Tensor) -> Tensor:
    """What the result itself gives is zero, and no tensor of zeros is made for it."""
    tangent: Tensor = torch.func.jvp(lambda a: a.sin() * 2, (x,), (x,))[1]
    return tangent


def unpacked(x: Tensor) -> Tensor:
    one, other = x.sin()
    result: Tensor = one * other + other
    return result


def unpacked_twice(x: Tensor) -> Tensor:
    h = x * 2
    one, other = h
    another, _ = h.sin()
    result: Tensor = one * other + another
    return result


def the_gradient_of_a_function(x: Tensor) -> Tensor:
    first: Tensor = torch.func.grad(lambda t: (t.sin() * t).sum())(x)
    return first * x


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # in torch.func.jvp
@pytest.mark.parametrize(
    "function",
    [
        complex_numbers,
        some_of_several_results,
        an_undefined_gradient,
        unpacked,
        unpacked_twice,
        the_gradient_of_a_function,
        a_tangent_alone,
    ],
)
def test_the_check_raises_no_false_alarm(function: Callable[..., Any]) -> None:
    run = run_of(function, leaf(2, 4))
    run.check_numerics()
    run.check_gradient_accumulation()
    inside = sum(len(g.joint.gradient_accumulations) for g in run.graphs if g.joint is not None)
    assert inside + len(run.tracked.between_graphs) > 0


def test_each_part_of_a_subclass_has_a_sum_of_its_own() -> None:
    x = TwoTensor(leaf(3).detach(), leaf(3).detach()).requires_grad_()
    run = run_of(lambda x: x.sin() + x.cos(), x)
    assert [accumulation.value for accumulation in run.tracked.eager] == ["x", "x"]
    assert len(run.joint.gradient_accumulations) == 2
    run.check_gradient_accumulation()


def test_sizes_of_the_second_opinion_may_be_symbols() -> None:
    run = run_of(lambda x: unpacked(x).sum(), leaf(2, 4), dynamic=True)
    run.check_gradient_accumulation()


@pytest.fixture(scope="module")
def unpacked_run() -> RegionRun:
    return run_of(unpacked, leaf(2, 4))


def altered(run: RegionRun, change: Callable[[list[fx.Node]], None]) -> fx.GraphModule:
    joint = copy.deepcopy(run.joint.graph)
    change([node for node in joint.graph.nodes if node.target is ADD])
    return joint


def faults(run: RegionRun, joint: fx.GraphModule) -> list[str]:
    traced = [graph.traced for graph in run.graphs if graph.traced is not None]
    return wrong_sums(run.tracked, traced, [joint])


def test_the_second_opinion_hides_no_fault(unpacked_run: RegionRun) -> None:
    def untag_what_eager_adds_too(nodes: list[fx.Node]) -> None:
        del nodes[-2].meta["is_gradient_acc"]

    def untag_what_only_the_traced_graph_adds(nodes: list[fx.Node]) -> None:
        del nodes[-1].meta["is_gradient_acc"]

    def tag_another(nodes: list[fx.Node]) -> None:
        nodes[0].meta["is_gradient_acc"] = True

    assert not faults(unpacked_run, altered(unpacked_run, lambda nodes: None))
    assert faults(unpacked_run, altered(unpacked_run, untag_what_eager_adds_too))
    assert faults(unpacked_run, altered(unpacked_run, untag_what_only_the_traced_graph_adds))
    assert faults(unpacked_run, altered(unpacked_run, tag_another))


def test_the_second_opinion_is_of_graphs_and_not_of_what_lies_between() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        hidden = x * 2
        hidden.register_hook(lambda g: g + g)  # torch tags its sum
        result = hidden.sin() + y
        return {"one": result, "all": [result, y]}  # whose gradients the caller sums

    run = run_of(function, leaf(3), leaf(3, 3))
    assert len(run.tracked.between_graphs) == 2
    assert not run.joint.gradient_accumulations
    run.check_gradient_accumulation()
    joint = altered(run, lambda nodes: nodes[-1].meta.update(is_gradient_acc=True))
    assert faults(run, joint)


def test_a_view_that_one_graph_hands_to_another_is_summed_at_its_base_between_them() -> None:
    def function(x: Tensor) -> Any:
        row = x[..., -1]
        waves = row.sin()
        torch._dynamo.graph_break()
        return waves.exp() * waves, row.cos()

    run = run_of(function, leaf(4, 6))
    run.check_gradient_accumulation()
    assert sorted(a.form[1] for a in run.tracked.between_graphs) == [(4, 6)]
    assert [a.form[1] for a in run.tracked.eager] == [(4,), (4,)]


def test_a_graph_that_does_not_run_without_data_gives_no_second_opinion(
    unpacked_run: RegionRun,
) -> None:
    (graph,) = unpacked_run.graphs
    assert graph.traced is not None
    assert accumulations_of(graph.traced) is not None
    broken = copy.deepcopy(graph.traced)
    for node in broken.graph.nodes:
        node.meta.pop("example_value", None)
    assert accumulations_of(broken) is None
    assert wrong_sums(unpacked_run.tracked, [broken], [unpacked_run.joint.graph])


def three_uses_and_a_hook(x: Tensor) -> Tensor:
    h = x * 2
    h.register_hook(lambda g: g + g * 2)
    return h.sin() + h.cos() + h.exp()


def test_a_tag_that_was_moved_is_found_though_the_number_is_right() -> None:
    run = run_of(three_uses_and_a_hook, leaf(3))
    run.check_gradient_accumulation()
    assert misplaced([run.joint.graph]) == []

    def move_to_the_forward(nodes: list[fx.Node]) -> None:
        del next(n for n in nodes if n.meta.get("is_gradient_acc")).meta["is_gradient_acc"]
        nodes[0].meta["is_gradient_acc"] = True

    joint = altered(run, move_to_the_forward)
    assert disagreements(run.tracked.eager, (), [joint]) == []
    (text,) = misplaced([joint], Path(__file__).parent)
    assert text.startswith("add (test_accumulation_kinds.py:")
    assert text.endswith(" is tagged, and adds up no two gradients")


def moments(x: Tensor) -> Tensor:  # the backward of which adds up two parts of one gradient
    variance, mean = torch.var_mean(x.cos(), 0)
    return variance * mean + x.sum()


def own_sum(x: Tensor) -> Tensor:
    apply: Any = SumsItsGradient.apply
    result: Tensor = apply(x).sin() + x.cos()
    return result


@pytest.mark.parametrize(
    ("function", "name", "reason"),
    [
        (moments, "add_1", r"was not made by autograd; add_2 \(.*\) was"),
        (own_sum, "add_1", "adds up no two gradients"),
    ],
)
def test_a_tag_on_another_addition_of_the_backward_is_found(
    function: Callable[..., Any], name: str, reason: str
) -> None:
    run = run_of(function, leaf(3))
    assert misplaced([run.joint.graph]) == []

    def move(nodes: list[fx.Node]) -> None:
        right = next(n for n in nodes if n.meta.get("is_gradient_acc"))
        del right.meta["is_gradient_acc"]
        next(n for n in nodes if n.name == name).meta["is_gradient_acc"] = True

    (text,) = misplaced([altered(run, move)], Path(__file__).parent)
    assert re.fullmatch(rf"{name} \(test_accumulation_kinds.py:.*\) is tagged, and {reason}", text)


class SumsItsGradient(torch.autograd.Function):
    """Its backward adds its gradient to itself."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g + g
