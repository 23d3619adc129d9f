"""Split a joint graph in two with torch's default partitioner, whatever in it nothing uses.

An operation that draws random numbers stays in a graph although nothing uses its results, so that
later draws are eager's.  Where it has several results (dropout on CUDA), the partitioner knows it
for one of several by its users, finds none, and raises "Expected native_dropout to be a tensor".

It copies one without inputs into the backward, too, where later draws are then not eager's; what is
the forward's there, and unused, is taken out.

What it puts in place of random operations that are recomputed is annotated as they were.
"""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

from pytest_fxregion._torch import default_partition
from pytest_fxregion.passes.metadata import BACKWARD, SIDE
from pytest_fxregion.passes.replacements import RandomOperations
from pytest_fxregion.regional.effects import is_drawn_or_pure

_READER = "fxregion_reader_of_unused_results"


def partition(joint_graph: fx.GraphModule, joint_inputs: Any, **rest: Any) -> tuple[Any, Any]:
    """Return forward and backward; the arguments are those of a partitioner of AOTAutograd's."""
    for node in list(joint_graph.graph.nodes):
        if node.op == "call_function" and not node.users and _has_several_results(node):
            with joint_graph.graph.inserting_after(node):
                reader = joint_graph.graph.call_function(operator.getitem, (node, 0))
            reader.meta = {**node.meta, "val": node.meta["val"][0], _READER: True}
    random_operations = RandomOperations(joint_graph)
    halves: tuple[fx.GraphModule, fx.GraphModule] = default_partition(
        joint_graph, joint_inputs, **rest
    )
    for half in halves:
        random_operations.annotate(half)
        for node in list(half.graph.nodes):
            if node.meta.get(_READER):
                half.graph.erase_node(node)
    _, backward = halves
    for node in reversed(list(backward.graph.nodes)):
        if _is_forwards(node) and not node.users and is_drawn_or_pure(node):
            backward.graph.erase_node(node)
    return halves


def _is_forwards(node: fx.Node) -> bool:
    return node.op == "call_function" and node.meta.get(SIDE, BACKWARD) != BACKWARD


def _has_several_results(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (tuple, list)) and bool(node.meta["val"])
