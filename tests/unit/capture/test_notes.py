"""What is said of nodes besides the graph's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from pytest_fxregion.capture.notes import body_losses, joint_losses, joint_notes, random_losses
from pytest_fxregion.passes.gradient_accumulation import TORCHS_OWN
from pytest_fxregion.passes.metadata import UNMATCHED

ROOT = Path("/home/me")
TRACE = 'File "/home/me/model.py", line 7, in forward\n    y = x * 2\n'
REGION = {"compile_with_inductor": {"inductor_region": "a"}}


def graph_of(*nodes: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    for target, args, meta in nodes:
        graph.call_function(target, (*args, x)).meta = {"stack_trace": TRACE, **meta}
    graph.output(x)
    return fx.GraphModule({}, graph)


def test_where_torchs_tag_is_another_the_node_and_its_line_are_named() -> None:
    joint = graph_of(
        (torch.mul, (), {TORCHS_OWN: True}),
        (torch.add, (), {"is_gradient_acc": True}),
        (torch.add, (), {TORCHS_OWN: True, "is_gradient_acc": True}),
    )
    assert joint_notes(joint, ROOT) == (
        "`mul` (model.py:7) is no gradient accumulation, though torch tags it: autograd did not "
        "add it",
        "`add` (model.py:7) is a gradient accumulation that torch does not tag: autograd added it",
    )
    assert "/home/me/model.py:7" in joint_notes(joint, None)[0]


def test_nodes_without_a_forward_are_told_where_something_is_annotated() -> None:
    unmatched = (torch.mul, (), {UNMATCHED: True})
    assert joint_losses(graph_of(unmatched), ROOT) == ()
    annotated = (torch.sin, (), {"custom": REGION})
    (loss,) = joint_losses(graph_of(annotated, unmatched), ROOT)
    assert loss.startswith("`mul` (model.py:7) in the backward belongs to no operation of the")


def test_annotated_random_operations_that_are_drawn_again_are_told() -> None:
    rand = torch.ops.aten.rand_like.default
    graph = graph_of(
        (run_and_save_rng_state, (rand,), {"custom": REGION}),
        (run_and_save_rng_state, (rand,), {}),
        (run_with_rng_state, (None, rand), {"custom": REGION, "stack_trace": None}),
    )
    saved, restored = random_losses(graph, ROOT)
    assert saved.startswith("`run_and_save_rng_state` (model.py:7) draws with aten.rand_like")
    assert restored.startswith("`run_with_rng_state` draws with aten.rand_like.default what")


def calling(*calls: tuple[dict[str, Any], dict[str, Any]]) -> fx.GraphModule:
    """A graph that calls a ``scan`` for each pair of its body's node's metadata and its own."""
    graph = fx.Graph()
    bodies = {}
    for i, (inside, meta) in enumerate(calls):
        bodies[f"body_{i}"] = graph_of((torch.sin, (), inside))
        call = graph.call_function(torch.ops.higher_order.scan, (graph.get_attr(f"body_{i}"),))
        call.meta = {"stack_trace": TRACE, **meta}
    graph.output(None)
    return fx.GraphModule(bodies, graph)


FORWARD = {"partitioner_tag": "is_forward", "seq_nr": 3}
ITS_BACKWARD = {"partitioner_tag": "is_backward", "seq_nr": 3}
ANNOTATED = {"custom": REGION}


def test_a_backward_whose_bodies_lost_their_annotations_is_told_once() -> None:
    lost = calling((ANNOTATED, FORWARD), ({}, ITS_BACKWARD))
    (loss,) = body_losses(None, lost, ROOT)
    assert loss.startswith("`scan_1` (model.py:7) is a backward whose bodies torch traces without")
    for kept in (
        calling((ANNOTATED, FORWARD), (ANNOTATED, ITS_BACKWARD)),
        calling((ANNOTATED, FORWARD), ({}, {**ITS_BACKWARD, **ANNOTATED})),
        calling((ANNOTATED, FORWARD), ({}, {**ITS_BACKWARD, "seq_nr": 4})),
        calling(({}, FORWARD), ({}, ITS_BACKWARD)),
    ):
        assert body_losses(kept, kept, ROOT) == ()


def test_a_body_that_lost_its_annotations_in_the_joint_graph_is_told() -> None:
    lost, kept = calling(({}, FORWARD)), calling((ANNOTATED, FORWARD))
    (loss,) = body_losses(kept, lost, ROOT)
    assert loss.startswith("`scan` (model.py:7) has annotations in its body, which torch drops")
    assert body_losses(kept, kept, ROOT) == ()
    assert body_losses(kept, graph_of(), ROOT) == ()  # no operator of the kind is left
