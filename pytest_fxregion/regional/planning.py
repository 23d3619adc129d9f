"""Partition a graph.  In: its nodes and their annotations; out: a plan in node numbers.

The bridge between torch.fx and :mod:`.partition`: labels, data edges and order become integers.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence

from torch.fx import Node

from .annotation import Annotation
from .effects import order_constraints
from .partition import UNLABELLED, Plan, partition


def plan(nodes: Sequence[Node], annotations: Mapping[Node, Annotation]) -> Plan:
    """Partition the annotated nodes and schedule the graph; numbers are positions in ``nodes``.

    Nodes share a piece only if they have the same region and configuration, and none of them is
    recomputed in the backward while another is not.
    """
    index = {node: i for i, node in enumerate(nodes)}
    order = order_constraints(nodes, index)
    labels = _labels(nodes, index, annotations, order.barriers)
    units = _units(nodes, annotations)
    unit_of = [0] * len(nodes)
    for k, unit in enumerate(units):
        for i in unit:
            unit_of[i] = k
    inputs: list[dict[int, None]] = [
        {unit_of[index[source]]: None for i in unit for source in nodes[i].all_input_nodes}
        for unit in units
    ]
    for before, after in order.edges:
        inputs[unit_of[after]][unit_of[before]] = None
    for k, sources in enumerate(inputs):
        sources.pop(k, None)
    contracted = partition(
        [list(sources) for sources in inputs],
        [labels[unit[0]] for unit in units],
        barriers=[unit_of[i] for i in order.barriers],
        free_users=frozenset({len(units) - 1}),
    )
    return Plan(
        tuple(tuple(sorted(i for k in piece for i in units[k])) for piece in contracted.pieces),
        tuple(units[step][0] if step >= 0 else step for step in contracted.schedule),
    )


def _labels(
    nodes: Sequence[Node],
    index: Mapping[Node, int],
    annotations: Mapping[Node, Annotation],
    barriers: Sequence[int],
) -> list[int]:
    numbers: dict[Hashable, int] = {}
    labels = [UNLABELLED] * len(nodes)
    in_backward = is_backward(nodes)
    for node, annotation in annotations.items():
        key = (annotation.key, kind_of(node, in_backward) == "recompute")
        labels[index[node]] = numbers.setdefault(key, len(numbers))
    for i in barriers:  # what changes how everything after it runs cannot be compiled
        labels[i] = UNLABELLED
    return labels


def _units(nodes: Sequence[Node], annotations: Mapping[Node, Annotation]) -> list[list[int]]:
    """Group a container's items with it, so that values cross a border flat; else single nodes."""
    units: list[list[int]] = []
    unit_of: dict[Node, list[int]] = {}
    for i, node in enumerate(nodes):
        container = node.args[0] if node.target is operator.getitem else None
        if container in annotations:
            unit_of[node] = unit_of[container]  # type: ignore[index]  # a Node
            unit_of[node].append(i)
            continue
        unit_of[node] = [i]
        units.append(unit_of[node])
    return units


def is_backward(nodes: Sequence[Node]) -> bool:
    """Whether these are the nodes of a backward graph: gradients come in and nothing else goes out.

    A joint graph takes gradients too, but the forward's results are among its outputs.
    """
    takes_gradients = any(
        node.op == "placeholder" and node.meta.get("partitioner_tag") == "is_backward"
        for node in nodes
    )
    return takes_gradients and not any(
        result.meta.get("partitioner_tag") == "is_forward" for result in nodes[-1].all_input_nodes
    )


def kind_of(node: Node, in_backward: bool) -> str:
    """Return ``forward``, ``recompute`` or ``backward``; ``inference`` where no tag says.

    ``in_backward`` says that the node's graph is a backward: torch 2.11 does not mark the nodes.
    """
    tag = node.meta.get("partitioner_tag")
    if in_backward or node.meta.get("autograd_backward"):
        return "recompute" if tag == "is_forward" else "backward"
    if tag is None:
        return "inference"
    return "forward" if tag == "is_forward" else "backward"
