"""Cutting pieces out and putting calls in their place; bodies run as they are."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion.errors import AnnotationError
from pytest_fxregion.regional import RegionalGraph, compile_regions
from pytest_fxregion.regional.region import RegionCall
from tests.unit.regional.annotated_graphs import Builder, Compiles, annotate, aten, region, traced

X, Y = torch.arange(4.0), torch.arange(4.0) + 1


def chain() -> fx.GraphModule:
    """``sin, [mul, add], cos``."""
    return traced(
        lambda x, y: (x.sin() * y + 1).cos(), X, Y, marks={"mul": region("r"), "add": region("r")}
    )


def text(gm: fx.GraphModule) -> list[str]:
    return [node.format_node() for node in gm.graph.nodes]


def assert_same_result(gm: fx.GraphModule, found: RegionalGraph, *inputs: object) -> None:
    torch.testing.assert_close(found.graph_module(*inputs), gm(*inputs), rtol=0, atol=0)


def test_region_is_one_call_with_the_name_and_value_of_its_result(compiles: Compiles) -> None:
    gm = chain()
    found = compile_regions(gm)
    nodes = list(found.graph_module.graph.nodes)
    assert [node.name for node in nodes] == ["x_1", "y_1", "sin", "add", "cos", "output"]
    call = nodes[3]
    assert call.target.__name__ == "inductor_region_0"
    assert call.target.fxregion_region is found.regions[0]
    assert call.meta["val"].shape == (4,)
    assert_same_result(gm, found, X, Y)


def test_original_graph_is_left_as_it_is(compiles: Compiles) -> None:
    gm = chain()
    before = text(gm), gm.code
    compile_regions(gm)
    assert (text(gm), gm.code) == before


@pytest.mark.parametrize("lean", [False, True])
def test_what_is_compiled_is_not_compiled_again(compiles: Compiles, lean: bool) -> None:
    once = compile_regions(chain()).graph_module
    (call,) = (n.target for n in once.graph.nodes if isinstance(n.target, RegionCall))
    call.is_lean = lean  # what is not is a barrier
    twice = compile_regions(once)
    assert twice.regions == ()
    assert_same_result(once, twice, X, Y)


def test_region_tells_what_it_took(compiles: Compiles) -> None:
    (found,) = compile_regions(chain()).regions
    assert found.name == "inductor_region_0"
    assert found.label == "'r'"
    assert (found.nodes, found.inputs, found.outputs) == (("mul", "add"), ("sin", "y_1"), ("add",))
    assert found.kind == "inference"
    assert found.shared_with is None


def test_several_results_are_items_with_the_old_names(compiles: Compiles) -> None:
    b = Builder("x", "y")
    product = b.call(aten.mul.Tensor, b["x"], b["y"], annotation=0)
    total = b.call(aten.add.Tensor, product, 1, annotation=0)
    gm = b.module(b.call(aten.sin.default, product), b.call(aten.cos.default, total))
    product.meta["autograd_backward"] = True  # not of all
    for node in (product, total):
        node.meta |= {"partitioner_tag": "is_backward", "stack_trace": node.name}
    gm.meta["of"] = "the graph"
    found = compile_regions(gm)
    assert found.graph_module.meta == gm.meta
    call, *items = list(found.graph_module.graph.nodes)[2:5]
    assert call.meta == {
        "val": (product.meta["val"], total.meta["val"]),
        "stack_trace": "mul_tensor",
        "custom": {"compile_with_inductor": 0},
        "partitioner_tag": "is_backward",
    }
    assert [item.meta for item in items] == [product.meta, total.meta]
    assert [node.name for node in found.graph_module.graph.nodes] == [
        *("x", "y", "inductor_region_0", "mul_tensor", "add_tensor"),
        *("sin_default", "cos_default", "output"),
    ]
    assert_same_result(gm, found, X, Y)


def test_graph_without_annotations_stays_and_still_takes_both_calls(compiles: Compiles) -> None:
    gm = traced(lambda x: x.sin(), X, marks={})
    found = compile_regions(gm)
    assert found.regions == ()
    assert_same_result(gm, found, X)
    torch.testing.assert_close(found.graph_module([X]), X.sin())


def test_equal_regions_have_bodies_of_equal_text_and_one_artifact(compiles: Compiles) -> None:
    def layers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (((x * y + 1).sin() * y) + 1).cos()

    marks = {"mul": region(0), "add": region(0), "mul_1": region(1), "add_1": region(1)}
    gm = traced(layers, X, Y, marks=marks)
    found = compile_regions(gm)
    first, second = found.regions
    assert first.body.code == second.body.code
    assert (first.shared_with, second.shared_with) == (None, "inductor_region_0")
    assert len(compiles.bodies) == 1
    assert_same_result(gm, found, X, Y)


def test_artifact_is_shared_with_a_later_graph_until_dynamo_is_reset(compiles: Compiles) -> None:
    compile_regions(chain())
    (again,) = compile_regions(chain()).regions
    assert len(compiles.bodies) == 1
    assert again.shared_with is None  # it names pieces of its own graph only
    torch._dynamo.reset()
    compile_regions(chain())
    assert len(compiles.bodies) == 2


def test_two_configs_never_share_a_piece(compiles: Compiles) -> None:
    marks = {"mul": region(0, epilogue_fusion=False), "add": region(0, epilogue_fusion=True)}
    found = compile_regions(traced(lambda x: x * 2 + 1, X, marks=marks))
    assert [r.nodes for r in found.regions] == [("mul",), ("add",)]
    assert compiles.configs == [{"epilogue_fusion": False}, {"epilogue_fusion": True}]


def test_items_go_with_their_container(compiles: Compiles) -> None:
    b = Builder("x")
    pair = b.call(aten.max.dim, b["x"], 0, annotation=0)
    largest = b.call(operator.getitem, pair, 0)  # as tracing leaves it: without an annotation
    where = b.call(operator.getitem, pair, 1)
    later = b.call(aten.sin.default, largest)
    gm = b.module(later, b.call(aten.add.Tensor, later, 1, annotation=0), where)
    found = compile_regions(gm)
    assert found.regions[0].nodes == ("max_dim", "getitem", "getitem_1")
    assert_same_result(gm, found, X)


def test_what_nobody_uses_is_not_compiled(compiles: Compiles) -> None:
    b = Builder("x")
    unused = b.call(aten.sin.default, b["x"], annotation=0)
    b.call(aten.cos.default, unused, annotation=0)
    used = b.call(aten.exp.default, b["x"], annotation=0)
    b.call(aten.cos.default, used, annotation=0)
    found = compile_regions(b.module(b.call(aten.neg.default, used)))
    assert [r.nodes for r in found.regions] == [("exp_default",)]


def test_draw_under_a_saved_state_is_not_compiled(compiles: Compiles) -> None:
    b = Builder("x", "state")
    draw = torch.ops.higher_order.run_with_rng_state
    drawn = b.graph.call_function(draw, (b["state"], aten.rand_like.default, b["x"]))
    negated = b.call(aten.neg.default, b["x"], annotation=0)
    found = compile_regions(b.module(negated, annotate(drawn, 0)))
    assert [r.nodes for r in found.regions] == [("neg_default",)]


def test_use_by_the_output_does_not_part_a_node_from_the_piece_that_uses_it(
    compiles: Compiles,
) -> None:
    b = Builder("x", "weight")
    weight = b.call(aten.alias.default, b["weight"], annotation=0)
    first = b.call(aten.sin.default, b["x"], annotation=0)
    second = b.call(aten.mul.Tensor, b.call(aten.neg.default, first), weight, annotation=0)
    found = compile_regions(b.module(second, weight))
    assert [r.nodes for r in found.regions] == [("sin_default",), ("alias_default", "mul_tensor")]


def test_reads_are_not_moved_over_a_write(compiles: Compiles) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        before = y.sum()
        y.mul_(2)
        return before, y.sum()

    gm = traced(fn, X, marks={"sum_1": 0, "sum_2": 0})
    found = compile_regions(gm)
    assert [r.nodes for r in found.regions] == [("sum_1",), ("sum_2",)]
    assert_same_result(gm, found, X)


def test_item_taken_after_a_write_stays_with_its_container(compiles: Compiles) -> None:
    b = Builder("x")
    pair = b.call(aten.max.dim, b["x"], 0, annotation=0)
    b.call(aten.mul_.Tensor, b["x"], 2)
    largest = b.call(operator.getitem, pair, 0)
    gm = b.module(b.call(aten.neg.default, largest, annotation=0))
    found = compile_regions(gm)
    assert [r.nodes for r in found.regions] == [("max_dim", "getitem", "neg_default")]
    torch.testing.assert_close(found.graph_module(X.clone()), (-X.max(),))


def test_switch_of_global_state_parts_a_region_but_no_item_from_its_container(
    compiles: Compiles,
) -> None:
    b = Builder("x")
    pair = b.call(aten.max.dim, b["x"], 0, annotation=0)
    annotate(b.graph.call_function(torch._C._set_grad_enabled, (False,)), 0)
    largest = b.call(operator.getitem, pair, 0)
    found = compile_regions(b.module(b.call(aten.neg.default, largest, annotation=0)))
    assert [r.nodes for r in found.regions] == [("max_dim", "getitem"), ("neg_default",)]


def test_region_that_only_writes_is_called(compiles: Compiles) -> None:
    b = Builder("x")
    b.call(aten.mul_.Tensor, b["x"], 2, annotation=0)
    found = compile_regions(b.module(b["x"]))
    assert len(found.regions) == 1
    x = torch.ones(4)
    found.graph_module(x)
    torch.testing.assert_close(x, torch.full((4,), 2.0))


def test_parameters_are_operands_also_under_dotted_names(compiles: Compiles) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    gm: Any = torch.export.export(model, (X[None],)).module()
    for node in gm.graph.nodes:
        if node.op == "call_function":
            annotate(node, 0)
    found = compile_regions(gm, (X[None],))
    (linear,) = found.regions
    assert len(linear.inputs) == 3
    assert not list(linear.body.parameters())
    with torch.no_grad():
        next(gm.parameters()).zero_()  # an optimizer's step must be seen
    assert_same_result(gm, found, X[None])


def test_export_graph_keeps_its_structure(compiles: Compiles) -> None:
    class Model(torch.nn.Module):
        def forward(self, pair: list[torch.Tensor], *, scale: torch.Tensor) -> dict[str, Any]:
            return {"sum": pair[0] + pair[1], "scaled": pair[0] * scale}

    gm: Any = torch.export.export(Model(), ([X, Y],), {"scale": Y}).module()
    for node in gm.graph.nodes:
        if node.op == "call_function":
            annotate(node, 0)
    found = compile_regions(gm).graph_module
    expected = {"sum": X + Y, "scaled": X * Y}
    torch.testing.assert_close(found([X, Y], scale=Y), expected)
    torch.testing.assert_close(found([X, Y, Y]), expected)  # boxed: one list of the flat inputs
    with pytest.raises(TypeError, match="missing arguments: scale"):
        found([X, Y])


def test_body_of_an_operator_goes_with_it(compiles: Compiles) -> None:
    def fn(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.cond(p, lambda v: v.sin(), lambda v: v.cos(), (x,))
        return found * 2

    gm: fx.GraphModule = make_fx(fn, tracing_mode="fake")(torch.tensor(True), X)
    for node in gm.graph.nodes:
        if node.op == "call_function":  # not the get_attr of the branches (pytorch#178690)
            annotate(node, 0)
    found = compile_regions(gm)
    (whole,) = found.regions
    assert "cond" in whole.nodes
    assert not found.graph_module.graph.find_nodes(op="get_attr")
    assert_same_result(gm, found, torch.tensor(False), X)


def test_tags_inside_the_body_of_an_untagged_operator_are_compiled_there(
    compiles: Compiles,
) -> None:
    def fn(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.cond(p, lambda v: v.sin() * 2, lambda v: v.cos(), (x,))
        return found

    gm: fx.GraphModule = make_fx(fn, tracing_mode="fake")(torch.tensor(True), X)
    branch: Any = gm.true_graph_0
    for node in branch.graph.nodes:
        annotate(node, region("branch"))
    found = compile_regions(gm)
    assert [r.nodes for r in found.regions] == [("sin", "mul")]
    assert gm.true_graph_0 is branch
    assert_same_result(gm, found, torch.tensor(True), X)
    assert_same_result(gm, found, torch.tensor(False), X)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: torch.cat([x, x]).sin() * 2,
        lambda x, n: torch.cat([x, x]).sin() * 2 + x.shape[0],
        lambda x, n: (x.shape[0] + torch.cat([x, x])).sin() * 2,
    ],
    ids=["nothing else reads", "read later", "read before"],
)
@pytest.mark.parametrize("given", [False, True], ids=["as a size", "as a number"])
def test_missing_symbols_become_operands(
    compiles: Compiles, fn: Callable[..., Any], given: bool
) -> None:
    gm: fx.GraphModule = make_fx(fn, tracing_mode="symbolic")(torch.ones(3, 5), 4)
    x, number = gm.graph.find_nodes(op="placeholder")
    number.meta["val"] = x.meta["val"].shape[0] if given else 4
    for node in gm.graph.nodes:
        if node.name in ("sin", "mul"):
            annotate(node, 0)
    found = compile_regions(gm)
    (twice,) = found.regions
    placeholders = twice.body.graph.find_nodes(op="placeholder")
    assert len(placeholders) == 2  # the operand of 2*s0 rows, and s0
    assert isinstance(placeholders[1].meta["val"], torch.SymInt)
    graph = found.graph_module.graph
    (call,) = (node for node in graph.nodes if isinstance(node.target, RegionCall))
    symbol = call.args[1]
    if given:
        assert symbol.name == number.name
    else:
        assert (symbol.target, symbol.args[1]) == (aten.sym_size.int, 0)
    assert str(symbol.meta["val"]) == str(placeholders[1].meta["val"])
    assert_same_result(gm, found, torch.ones(7, 5), 7)


def test_symbol_that_another_region_makes_is_one_of_its_results(compiles: Compiles) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        where = x.nonzero()
        return torch.cat([where, where]).neg().cos()

    gm: fx.GraphModule = make_fx(fn, tracing_mode="symbolic")(X)
    for node in gm.graph.nodes:
        if node.name in ("nonzero", "cat", "cos"):
            annotate(node, region("b" if node.name == "cos" else "a"))
    found = compile_regions(gm)
    assert [r.outputs for r in found.regions] == [("nonzero", "cat"), ("cos",)]
    assert_same_result(gm, found, X)


def test_symbol_that_nothing_has_by_itself_is_no_operand(compiles: Compiles) -> None:
    traced_with_symbols = make_fx(lambda x: torch.cat([x, x]).sin(), tracing_mode="symbolic")
    gm: fx.GraphModule = traced_with_symbols(X)
    x, cat, sin, _ = gm.graph.nodes
    x.meta["val"] = cat.meta["val"]
    annotate(sin, 0)
    assert_same_result(gm, compile_regions(gm), X)


def test_sizes_between_nodes_of_a_region_do_not_cut_it(compiles: Compiles) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([x, x])
        return y.view(y.shape[0] * y.shape[1]).sin()

    gm: fx.GraphModule = make_fx(fn, tracing_mode="symbolic")(torch.ones(3, 5))
    for node in gm.graph.nodes:
        if node.name in ("cat", "view", "sin"):
            annotate(node, 0)
    found = compile_regions(gm)
    assert len(found.regions) == 1
    assert_same_result(gm, found, torch.ones(4, 6))


def test_operator_without_a_value_gets_one(compiles: Compiles) -> None:
    b = Builder("x")
    middle = b.call(aten.sin.default, b["x"])
    del middle.meta["val"]  # as torch leaves run_with_rng_state
    gm = b.module(b.call(aten.cos.default, b.call(aten.neg.default, b["x"]), annotation=0), middle)
    assert_same_result(gm, compile_regions(gm), X)


def test_graph_without_values_takes_them_from_its_inputs(compiles: Compiles) -> None:
    gm = fx.symbolic_trace(lambda x, y: torch.add(torch.neg(torch.mul(x, y)), 1))
    for node in gm.graph.nodes:
        if node.name in ("mul", "add"):
            annotate(node, 0)
    found = compile_regions(gm, (X, Y))
    assert [r.nodes for r in found.regions] == [("mul",), ("add",)]
    assert found.regions[0].body.graph.find_nodes(op="placeholder")[0].meta["val"].shape == (4,)
    assert_same_result(gm, found, X, Y)


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(self.linear(x), 2)


def test_what_a_module_gives_is_known_and_the_module_itself_is_refused(compiles: Compiles) -> None:
    """In a graph of modules: its copy of the weights would not be those that a step updates."""
    gm = fx.symbolic_trace(Scaled())
    linear, mul = list(gm.graph.nodes)[1:3]
    annotate(mul, 0)
    assert_same_result(gm, compile_regions(gm, (X,)), X)
    (body,) = compiles.bodies
    assert next(iter(body.graph.nodes)).meta["val"].shape == (2,)
    annotate(linear, 0)
    with pytest.raises(AnnotationError, match=r"^linear: .* call of the module 'linear'"):
        compile_regions(gm, (X,))


def test_body_keeps_the_tags_that_its_text_shows(compiles: Compiles) -> None:
    gm = chain()
    for node in gm.graph.nodes:
        node.meta.update(stack_trace="File", recompute=1, ac_graph_id=3)
    (found,) = compile_regions(gm).regions
    (product,) = found.body.graph.find_nodes(op="call_function", target=aten.mul.Tensor)
    assert {"val", "custom", "stack_trace", "recompute", "ac_graph_id"} <= set(product.meta)


def test_recomputed_nodes_are_a_piece_of_their_own(compiles: Compiles) -> None:
    gm = traced(lambda x: (x.sin(), x.cos()), X, marks={"sin": 0, "cos": 0})
    for node in gm.graph.nodes:
        node.meta["autograd_backward"] = True
        node.meta["partitioner_tag"] = "is_forward" if node.name == "sin" else "is_backward"
    found = compile_regions(gm)
    assert [(r.kind, r.nodes) for r in found.regions] == [
        ("recompute", ("sin",)),
        ("backward", ("cos",)),
    ]


def test_literal_held_by_the_graph_is_an_operand(compiles: Compiles) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 2.0, 3.0, 4.0])

    gm: fx.GraphModule = make_fx(fn, tracing_mode="fake")(X)
    for node in gm.graph.nodes:
        if node.op in ("call_function", "get_attr"):
            annotate(node, 0)
    assert_same_result(gm, compile_regions(gm), X)
