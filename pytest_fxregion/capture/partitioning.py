"""Split a joint graph in two with torch's default partitioner, whatever in it nothing uses.

An operation that draws random numbers stays in a graph although nothing uses its results, so that
later draws are eager's.  Where it has several results (dropout on CUDA), the partitioner knows it
for one of several by its users, finds none, and raises "Expected native_dropout to be a tensor".

It copies one without inputs into the backward, too, where later draws are then not eager's; what is
the forward's there, and unused, is taken out.

Where code asks for a memory budget, torch's min-cut partitioner decides what is saved: it is the
one that knows of budgets.

Of what a selective policy would rather save it saves only what the backward reads itself.  Where
that is a recomputed view, there is nothing to compute it from ("was invalid, but is output").

Nor does it know that inputs which the function writes to (the statistics of a batch norm) are
written to after the forward: what recomputing reads of them is another value by then, and autograd
refuses to hand it out.  A copy is saved of them.

What a partitioner puts in place of random operations that are recomputed is annotated as they were.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from pytest_fxregion._torch.tracing import (
    default_partition,
    memory_budget,
    min_cut_partition,
    without_merging_of_equal_nodes,
    written_inputs,
)
from pytest_fxregion.passes.metadata import BACKWARD, SIDE
from pytest_fxregion.passes.replacements import RandomOperations
from pytest_fxregion.regional.effects import is_drawn_or_pure

CLONE = torch.ops.aten.clone.default

# Policies by which an operation is done again in the backward.
_AGAIN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)

_READER = "fxregion_reader_of_unused_results"


def partition(joint_graph: fx.GraphModule, joint_inputs: Any, **rest: Any) -> tuple[Any, Any]:
    """Return forward and backward; the arguments are those of a partitioner of AOTAutograd's."""
    for node in list(joint_graph.graph.nodes):
        if node.op == "call_function" and not node.users and _has_several_results(node):
            with joint_graph.graph.inserting_after(node):
                reader = joint_graph.graph.call_function(operator.getitem, (node, 0))
            reader.meta = {**node.meta, "val": node.meta["val"][0], _READER: True}
    random_operations = RandomOperations(joint_graph)
    written = written_inputs(joint_graph.graph)
    halves = _split(joint_graph, joint_inputs, rest)
    for half in halves:
        random_operations.annotate(half)
        for node in list(half.graph.nodes):
            if node.meta.get(_READER):
                half.graph.erase_node(node)
    _, backward = halves
    for node in reversed(list(backward.graph.nodes)):
        if _is_forwards(node) and not node.users and is_drawn_or_pure(node):
            backward.graph.erase_node(node)
    _save_copies(written, *halves, rest["num_fwd_outputs"])
    return halves


def _save_copies(
    written: Collection[str],
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    num_forward_outputs: int,
) -> None:
    """Save a copy of each input that is written to after the forward and read to recompute."""
    end = forward.graph.output_node()
    (outputs,) = end.args
    assert isinstance(outputs, (tuple, list))
    results, saved = outputs[:num_forward_outputs], list(outputs[num_forward_outputs:])
    given = {p.name: p for p in backward.graph.find_nodes(op="placeholder")}
    for node in [n for n in saved if isinstance(n, fx.Node) and n.name in written]:
        if not all(map(_is_forwards, given[node.name].users)):
            continue  # needed for a gradient itself: eager refuses that, too
        value = node.meta["val"]
        with forward.graph.inserting_before(_first_operation(forward.graph)), value.fake_mode:
            copied = forward.graph.create_node(
                "call_function", CLONE, (node,), name=f"{node.name}_before"
            )
            copied.meta = {"val": value.clone()}
        saved[saved.index(node)] = copied
        with backward.graph.inserting_before(given[node.name]):
            taken = backward.graph.placeholder(copied.name)
        taken.meta = dict(given[node.name].meta)
        given[node.name].replace_all_uses_with(taken)
        backward.graph.erase_node(given[node.name])
    end.args = ((*results, *saved),)
    for half in (forward, backward):
        half.recompile()


def _first_operation(graph: fx.Graph) -> fx.Node:
    node: fx.Node = next(node for node in graph.nodes if node.op != "placeholder")
    return node


def _is_forwards(node: fx.Node) -> bool:
    return node.op == "call_function" and node.meta.get(SIDE, BACKWARD) != BACKWARD


def _split(
    joint_graph: fx.GraphModule, joint_inputs: Any, rest: dict[str, Any]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    if all(memory_budget(node) is None for node in joint_graph.graph.nodes):
        with _saved_for_what_is_recomputed(joint_graph) as saved:
            halves = default_partition(joint_graph, joint_inputs, **rest)
        for node in (node for half in halves for node in half.graph.nodes):
            if node.name in saved and "recompute" in node.meta:
                node.meta["recompute"] = CheckpointPolicy.PREFER_SAVE
        return halves
    with without_merging_of_equal_nodes():
        return min_cut_partition(joint_graph, joint_inputs, **rest)


@contextmanager
def _saved_for_what_is_recomputed(joint_graph: fx.GraphModule) -> Iterator[set[str]]:
    """While active, what a policy would rather save must be, if only what is recomputed reads it.

    Gives the names of such nodes.
    """
    needed: set[fx.Node] = set()  # by the backward, as it is or to recompute something
    found = []
    for node in reversed(list(joint_graph.graph.nodes)):
        recomputed = [u for u in node.users if u in needed and u.meta.get("recompute") in _AGAIN]
        used = any(user.meta.get(SIDE) == BACKWARD for user in node.users)
        if used or recomputed:
            needed.add(node)
        if recomputed and not used and node.meta.get("recompute") == CheckpointPolicy.PREFER_SAVE:
            found.append(node)
    for node in found:
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    try:
        yield {node.name for node in found}
    finally:
        for node in found:
            node.meta["recompute"] = CheckpointPolicy.PREFER_SAVE


@contextmanager
def memory_budgets_ignored() -> Iterator[None]:
    """While active, ``region_activation_memory_budget`` does nothing, where it would raise.

    Eager saves what it saves, whatever a compiler may be asked for.
    """
    if not hasattr(torch.autograd.graph, "region_activation_memory_budget"):
        yield
        return
    with patch.object(
        torch.autograd.graph, "region_activation_memory_budget", lambda _budget: nullcontext()
    ):
        yield


def _has_several_results(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (tuple, list)) and bool(node.meta["val"])
