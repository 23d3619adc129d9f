"""What keeps its order beyond data flow."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal
from unittest.mock import Mock

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from pytest_fxregion.regional.artifacts import Artifact
from pytest_fxregion.regional.effects import (
    effects_of,
    is_pure,
    only_computes,
    order_constraints,
    written_arguments,
)
from pytest_fxregion.regional.region import ArtifactCall
from tests.unit.regional.annotated_graphs import Builder, aten

Mode = Literal["real", "fake", "symbolic"]


def order(gm: fx.GraphModule) -> set[tuple[str, str]]:
    """The ordered pairs of node names."""
    nodes = list(gm.graph.nodes)
    found = order_constraints(nodes, {node: i for i, node in enumerate(nodes)})
    return {(nodes[i].name, nodes[j].name) for i, j in found.edges}


def traced(fn: Callable[..., Any], *inputs: torch.Tensor, mode: Mode = "fake") -> fx.GraphModule:
    gm: fx.GraphModule = make_fx(fn, tracing_mode=mode)(*inputs)
    return gm


def test_functional_graph_has_no_constraints() -> None:
    assert order(traced(lambda x: (x.sin() + x).sum(), torch.ones(3))) == set()


@pytest.mark.parametrize("mode", ["fake", "real"])
def test_readers_stay_on_their_side_of_a_write(mode: Mode) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        before = y.sum()
        y.mul_(2)
        return before, y.sum()

    assert order(traced(fn, torch.ones(3), mode=mode)) == {("sum_1", "mul_"), ("mul_", "sum_2")}


def test_write_through_a_view_orders_readers_of_the_base() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].zero_()
        return y.sum()

    assert ("zero_", "sum_1") in order(traced(fn, torch.ones(3, 2)))


def test_writes_to_other_storage_order_nothing() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        written = x.clone()
        written.add_(y)
        return y.cos(), written

    assert order(traced(fn, torch.ones(3), torch.ones(3))) == {("add_", "output")}


def test_write_to_an_input_orders_readers_of_one_that_shares_its_memory() -> None:
    b = Builder("x", "y")
    b["y"].meta["val"] = b["x"].meta["val"].view(4)
    read, write = b.call(aten.sin.default, b["y"]), b.call(aten.mul_.Tensor, b["x"], 2)
    assert order(b.module(read)) == {(read.name, write.name)}


def test_copy_back_to_an_input_comes_after_its_readers() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        x.copy_(x.cos())
        return y

    assert {("sin", "copy_"), ("cos", "copy_")} <= order(traced(fn, torch.ones(3)))


def test_edges_are_linear_in_the_readers() -> None:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.clone()
        found = [y + i for i in range(10)]
        y.mul_(2)
        return found + [y + i for i in range(10)]

    assert len(order(traced(fn, torch.ones(3)))) == 20


def test_random_draws_keep_their_order() -> None:
    gm = traced(lambda x: (torch.rand_like(x), x.sin(), torch.bernoulli(x)), torch.ones(3))
    assert order(gm) == {("rand_like", "bernoulli")}


def test_numbers_drawn_in_place_are_a_draw_and_a_write() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone()
        before = y.sin()
        y.uniform_()
        return before, y.cos(), torch.rand_like(x)

    assert order(traced(fn, torch.ones(3))) == {
        ("sin", "uniform_"),
        ("uniform_", "cos"),
        ("uniform_", "rand_like"),
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (torch.sin, {("rand_like", "rand_like_1")}),
        (torch.rand_like, {("rand_like", "call"), ("call", "rand_like_1")}),
        (
            lambda x: x.mul_(2),
            {
                *(("rand_like", "rand_like_1"), ("rand_like", "call")),
                *(("call", "rand_like_1"), ("call", "output")),
            },
        ),
    ],
    ids=["pure", "random", "write"],
)
def test_operator_does_what_its_body_does(
    body: Callable[..., Any], expected: set[tuple[str, str]]
) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.rand_like.default, (x,))
    held, weight = graph.get_attr("body"), graph.get_attr("weight")
    call = graph.create_node(
        "call_function",
        torch.ops.higher_order.invoke_subgraph,
        (held, "id", x, weight),
        name="call",
    )
    second = graph.call_function(aten.rand_like.default, (x,))
    graph.output((first, call, second))
    names = {"rand_like_default": "rand_like", "rand_like_default_1": "rand_like_1"}
    attributes = {"body": traced(body, torch.ones(3)), "weight": torch.ones(3)}
    found = order(fx.GraphModule(attributes, graph))
    assert {(names.get(a, a), names.get(b, b)) for a, b in found} == expected
    assert is_pure(call) is (body is torch.sin)


def test_collectives_keep_their_order() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    c10d = torch.ops._c10d_functional
    start = graph.call_function(c10d.all_reduce.default, (x, "sum", "0"))
    other = graph.call_function(c10d.all_reduce.default, (x, "max", "0"))
    wait = graph.call_function(c10d.wait_tensor.default, (start,))
    graph.output((wait, other))
    assert order(fx.GraphModule({}, graph)) == {
        ("all_reduce_default", "all_reduce_default_1"),
        ("all_reduce_default_1", "wait_tensor_default"),
    }


def test_switch_of_global_state_is_a_barrier() -> None:
    graph = fx.Graph()
    graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output(())
    nodes = list(graph.nodes)
    found = order_constraints(nodes, {node: i for i, node in enumerate(nodes)})
    assert found.barriers == (1,)


@pytest.mark.parametrize(
    "assertion",
    [
        aten._assert_async.msg,
        aten._assert_scalar.default,
        aten._assert_tensor_metadata.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
    ],
    ids=str,
)
def test_assertions_are_bound_by_what_they_check_alone(assertion: Callable[..., Any]) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first, _ = graph.call_function(assertion, (x,)), graph.call_function(assertion, (x,))
    graph.output(())
    assert order(fx.GraphModule({}, graph)) == set()
    assert is_pure(first)


@pytest.mark.parametrize(
    "name", ["run_and_save_rng_state", "run_with_rng_state", "graphsafe_run_with_rng_state"]
)
def test_draws_under_a_saved_state_keep_their_order_with_all_others(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.rand_like.default, (x,))
    saved = graph.call_function(getattr(torch.ops.higher_order, name), (aten.rand_like.default, x))
    graph.output((first, saved))
    assert order(fx.GraphModule({}, graph)) == {(first.name, saved.name)}


@pytest.mark.parametrize(
    ("op", "target", "arguments", "written"),
    [
        ("call_function", aten.add.Tensor, ("x", "y"), ""),
        ("call_function", aten.add_.Tensor, ("x", "y"), "x"),
        ("call_function", aten.add.out, ("x", "x", {"out": "y"}), "y"),
        ("call_function", aten._foreach_add_.Scalar, (["x", "y"], 1), "xy"),
        ("call_function", torch.ops.higher_order.triton_kernel_wrapper_mutation, ("x", "y"), "xy"),
        ("call_method", "add", ("x", "y"), ""),
        ("call_method", "add_", ("x", "y"), "x"),
        ("call_module", "layer", ("x", "y"), ""),
    ],
    ids=str,
)
def test_what_is_written_to(op: str, target: Any, arguments: tuple[Any, ...], written: str) -> None:
    graph = fx.Graph()
    named = {name: graph.placeholder(name) for name in "xy"}
    args: Any = tree_map(lambda part: named.get(part, part), list(arguments))
    kwargs = args.pop() if isinstance(args[-1], dict) else {}
    node = graph.create_node(op, target, tuple(args), kwargs)
    assert [argument.name for argument in written_arguments(node)] == list(written)
    assert effects_of(node) == ({"write"} if written else set())


@pytest.mark.parametrize(
    ("target", "pure"),
    [
        (aten.sin.default, True),
        (aten.sin_.default, False),
        (aten.rand_like.default, False),
        (operator.add, True),
        (operator.iadd, False),
        (operator.inv, True),
        (operator.xor, True),
        (operator.setitem, False),
        (operator.delitem, False),
        (torch._assert, False),
        (torch.ops.profiler._record_function_enter.default, False),
        (torch.ops.higher_order.triton_kernel_wrapper_mutation, False),
        (ArtifactCall("any", Artifact(Mock(), None, False), is_single=True), False),
        (ArtifactCall("lean", Artifact(Mock(), Mock(), False), is_single=True), True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),  # no address: workers compare them
)
def test_purity(target: Callable[..., Any], pure: bool) -> None:
    assert is_pure(fx.Graph().call_function(target, ())) is pure


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: (x.sin() * 2, x.cos()), True),
        (lambda x: x.sin().view(-1), True),
        (lambda x: torch.max(x.sin(), 0), True),
        (lambda x: x.view(-1), False),
        (lambda x: torch.split(x, 1)[0], False),
        (lambda x: (lambda y: (y, y.view(-1)))(x.sin()), False),
        (lambda x: x.sin().mul_(2), False),
        (lambda x: torch.rand_like(x), False),
    ],
    ids=[
        *("results", "view of an intermediate", "items", "view of an operand"),
        *("items that view an operand", "two names", "write", "random"),
    ],
)
def test_whether_a_body_only_computes(fn: Callable[..., Any], expected: bool) -> None:
    assert only_computes(traced(fn, torch.ones(2, 2))) is expected
