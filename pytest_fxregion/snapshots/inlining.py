"""A stage's outer graph and the bodies of its compiled regions in, one flat graph out.

So a node that leaves a region, or a region that splits, is the same node in another piece, and not
one node less in one text and one more in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_fxregion.snapshots.graph import Graph, Node


@dataclass(frozen=True)
class Inlined:
    """A flat graph, and for names that are no nodes of it the node that makes that value now."""

    graph: Graph
    results: Mapping[str, str]


def inline_regions(outer: Graph, bodies: Mapping[str, Graph]) -> Inlined:
    """Put the body of each region in the place of its call; its nodes get their ``piece``.

    A node whose value leaves the region has its name in the outer graph, the others are called
    ``region/name``.  A call that does not fit its body (an argument that is no node, a result that
    is not there) is left as it is.

    Args:
        outer: the graph with calls ``inductor_region_0(...)``.
        bodies: by name of the call, the graph that it calls.

    """
    items = _items_of(outer)
    results: dict[str, str] = {}
    nodes: list[Node] = []
    gone: set[str] = set()
    for node in outer.nodes:
        body = bodies.get(node.target) if node.op == "call" else None
        if node.name in gone:  # a getitem of an inlined call
            continue
        taken = _taken(node, items.get(node.name, ()))
        if body is not None and (inlined := _inlined(node, body, taken)):
            inner, made = inlined
            nodes += (_rewired(each, results) for each in inner)
            results.update((name, results.get(value, value)) for name, value in made.items())
            gone.update(name for name in taken if name != node.name)
        else:
            nodes.append(_rewired(node, results))
    return Inlined(Graph(outer.path, tuple(nodes), outer.other), results)


def _items_of(graph: Graph) -> dict[str, list[Node]]:
    """Return the users of each node if all of them are ``getitem``."""
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    return {
        name: nodes
        for name, nodes in users.items()
        if all(node.target == "getitem" for node in nodes)
    }


def _taken(call: Node, items: Sequence[Node]) -> dict[str, int]:
    """Return which result of a call each name stands for."""
    if not items:
        return {call.name: 0}
    return {item.name: int(item.args.rpartition(", ")[2]) for item in items}


def _inlined(
    call: Node, body: Graph, taken: Mapping[str, int]
) -> tuple[list[Node], dict[str, str]] | None:
    """Return a body's nodes under outer names, and the names of results that are none of them."""
    parameters = [node.name for node in body.nodes if node.op == "placeholder"]
    output = next((node for node in body.nodes if node.op == "output"), None)
    if output is None or len(parameters) != len(call.inputs):
        return None
    if not all(0 <= position < len(output.inputs) for position in taken.values()):
        return None
    if call.name in taken and len(output.inputs) != 1:
        return None
    names = dict(zip(parameters, call.inputs, strict=True))
    for name, position in taken.items():
        names.setdefault(output.inputs[position], name)
    inner: list[Node] = []
    for node in body.nodes:
        if node.op not in {"placeholder", "output"}:
            name = names.setdefault(node.name, f"{call.target}/{node.name}")
            inputs = tuple(names.get(value, value) for value in node.inputs)
            inner.append(replace(node, name=name, inputs=inputs, piece=call.target))
    made = {name: names[output.inputs[position]] for name, position in taken.items()}
    return inner, {name: value for name, value in made.items() if name != value}


def _rewired(node: Node, results: Mapping[str, str]) -> Node:
    if not any(name in results for name in node.inputs):
        return node
    return replace(node, inputs=tuple(results.get(name, name) for name in node.inputs))
