"""The smallest part of a body, told by a stand-in for what compiles and compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion.checks.culprit.shrink import Part, shrink

aten = torch.ops.aten
X, Y = torch.linspace(0.1, 1, 6).reshape(2, 3), torch.linspace(1, 2, 6).reshape(2, 3)


def body_of(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    module: fx.GraphModule = make_fx(function)(*inputs)
    return module


def names(part: Part | None) -> list[str]:
    assert part is not None
    return [getattr(node.target, "__name__", str(node.target)) for node in part.operations]


def has(*targets: Any) -> Callable[[Part], bool]:
    """A part differs if it has all of these operators."""

    def differs(part: Part) -> bool:
        found = {node.target for node in part.module.graph.nodes}
        return found.issuperset(targets)

    return differs


def feeds(first: Any, second: Any) -> Callable[[Part], bool]:
    """A part differs if a result of the first operator comes to the second one, however far."""

    def differs(part: Part) -> bool:
        reached: set[fx.Node] = set()
        for node in part.module.graph.nodes:
            if node.target is second and reached.intersection(node.all_input_nodes):
                return True
            if node.target is first or reached.intersection(node.all_input_nodes):
                reached.add(node)
        return False

    return differs


def waves(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    h = (x * y).exp()
    s = (h + 1).sin()
    return s * y, s.sum() + h


def test_one_operation_is_left_with_the_values_that_eager_gave_it() -> None:
    part = shrink(body_of(waves, X, Y), (X, Y), has(aten.sin.default))
    assert names(part) == ["sin.default"]
    assert part is not None
    (taken,) = part.inputs
    assert isinstance(taken, Tensor)
    assert torch.equal(taken, (X * Y).exp() + 1)
    (result,) = part.module(*part.inputs)
    assert torch.equal(result, taken.sin())


def test_operations_that_differ_only_together_stay_together() -> None:
    part = shrink(body_of(waves, X, Y), (X, Y), has(aten.exp.default, aten.sum.default))
    assert names(part) == ["exp.default", "sum.default"]


def test_what_lies_between_is_stepped_over() -> None:
    def function(x: Tensor) -> Tensor:
        return x.exp().neg().cos().tanh().sin().abs()

    part = shrink(body_of(function, X), (X,), feeds(aten.exp.default, aten.sin.default))
    assert names(part) == ["exp.default", "sin.default"]
    assert part is not None
    (sin,) = part.module(X)
    assert torch.equal(sin, X.exp().sin())


def test_what_lies_between_stays_where_it_changes_the_shape() -> None:
    def function(x: Tensor) -> Tensor:
        return x.exp().sum(0).sin()

    part = shrink(body_of(function, X), (X,), feeds(aten.exp.default, aten.sin.default))
    assert names(part) == ["exp.default", "sum.dim_IntList", "sin.default"]


def test_results_that_do_not_matter_are_left_out() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.split([1, 2], 1)
        return a.sin(), b.cos()

    part = shrink(body_of(function, X), (X,), lambda part: "split" in str(part.module.graph))
    assert names(part) == ["split_with_sizes.default", "getitem"]
    assert part is not None
    assert len(part.module(*part.inputs)) == 1


def test_a_value_out_of_a_container_stays_with_it() -> None:
    def function(x: Tensor) -> Tensor:
        values, places = x.max(1)
        return values.sin() + places

    part = shrink(body_of(function, X), (X,), has(aten.max.dim))
    assert names(part) == ["max.dim", "getitem"]


def test_numbers_are_written_into_the_graph() -> None:
    graph = fx.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    product = graph.call_function(aten.mul.Tensor, (x, n))
    graph.output((graph.call_function(aten.sin.default, (product,)), product))
    part = shrink(fx.GraphModule({}, graph), (X, 3), has(aten.mul.Tensor))
    assert part is not None
    assert len(part.inputs) == 1
    assert torch.equal(part.module(*part.inputs)[0], X * 3)


def test_a_body_that_writes_to_its_operands_is_left_whole() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.call_function(aten.copy_.default, (x, y))
    graph.output((graph.call_function(aten.sin.default, (y,)),))
    body = fx.GraphModule({}, graph)
    operands = (X.clone(), Y.clone())
    part = shrink(body, operands, has(aten.sin.default))
    assert names(part) == ["copy_.default", "sin.default"]
    assert torch.equal(operands[0], X)


def test_nothing_is_left_of_a_body_that_does_not_differ_by_itself() -> None:
    assert shrink(body_of(waves, X, Y), (X, Y), lambda part: False) is None
