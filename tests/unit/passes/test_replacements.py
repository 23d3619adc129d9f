"""What torch puts in place of annotated nodes is annotated as they were."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch._prims.rng_prims import (
    graphsafe_run_with_rng_state,
    run_and_save_rng_state,
    run_with_rng_state,
)

from pytest_fxregion import region
from pytest_fxregion.passes.replacements import RandomOperations, replacements_annotated
from tests.unit.passes.joint_tracing import joint_graph, leaf

REGION: dict[str, Any] = {"compile_with_inductor": {}}
DROPOUT = torch.ops.aten.native_dropout.default
RAND = torch.ops.aten.rand_like.default


def scaled(x: Tensor, factor: float) -> Tensor:
    with region():
        x = x * factor + 1
    return x.cos() * (factor * 2)


def test_an_operation_with_a_float_argument_keeps_its_annotation() -> None:
    joint = joint_graph(scaled, leaf(4), 0.5, dynamic=True)
    found = {
        node.name: node.meta.get("custom")
        for node in joint.graph.nodes
        if node.target in (torch.ops.aten.mul.Tensor, torch.ops.aten.add.Tensor)
    }
    forward_mul, add, forward_other, *_, backward_mul = found.values()
    assert [forward_mul, add, backward_mul] == [REGION] * 3
    assert forward_other is None
    # All that the products with a tensor are made of is on a known side of the joint graph.
    assert all(
        "partitioner_tag" in node.meta for node in joint.graph.nodes if node.op == "call_function"
    )


def test_a_new_node_takes_over_what_is_known_of_the_one_that_it_replaces() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    old = graph.call_function(torch.sin, (x,))
    old.meta = {"custom": {"a": 1}, "seq_nr": 3, "val": "sine", "from_node": []}
    other = graph.call_function(torch.cos, (old,))
    other.meta = {"custom": {"a": 2}}
    graph.output(other)
    with replacements_annotated(graph):
        with graph.inserting_before(other):
            first = graph.call_function(torch.abs, (x,))
            second = graph.call_function(torch.tan, (first,))
            second.meta["val"] = "tangent"
        old.replace_all_uses_with(second)
        graph.erase_node(old)
    assert first.meta == {"custom": {"a": 1}, "seq_nr": 3}
    assert second.meta == {"custom": {"a": 1}, "seq_nr": 3, "val": "tangent"}
    assert other.meta == {"custom": {"a": 2}}
    assert graph.call_function(torch.neg, (x,)).meta == {}


def drawing(*annotations: Any) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    for annotation in annotations:
        graph.call_function(RAND, (x,)).meta["custom"] = annotation
    graph.output(x)
    return fx.GraphModule({}, graph)


def test_random_operations_under_a_state_stand_for_those_of_the_joint_graph_in_order() -> None:
    operations = RandomOperations(drawing("a", "b", "c", "d"))
    graph = fx.Graph()
    x, state = graph.placeholder("x"), graph.placeholder("state")
    saving = graph.call_function(run_and_save_rng_state, (RAND, x))
    unchanged = graph.create_node("call_function", RAND, (x,), name="rand_like_default_1")
    restoring = graph.call_function(run_with_rng_state, (state, RAND, x))
    shared = graph.call_function(graphsafe_run_with_rng_state, (RAND, x), {"rng_state": state})
    other = graph.call_function(run_and_save_rng_state, (DROPOUT, x, 0.5, True))
    graph.output(x)
    operations.annotate(fx.GraphModule({}, graph))
    drawn = [saving, unchanged, restoring, shared, other]
    assert [node.meta.get("custom") for node in drawn] == ["a", None, "c", "d", None]
