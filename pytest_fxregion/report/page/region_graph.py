"""The nodes of a stage in, a small drawing out: its regions, and what lies between them, condensed.

Nodes outside of regions are one box where the same regions come before them and after them, so a
drawing has as few boxes as can be without a cycle: a way from such a box through another back to
it would pass a node that has the same regions before it and after it, and so is in the box.
Where everything goes is decided here (:mod:`.layout`), so that the page only draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_fxregion.report.page.layout import lay_out


def region_graph(
    ops: Sequence[str], inputs: Sequence[Sequence[int]], bands: Sequence[int]
) -> dict[str, Any]:
    """Return boxes and edges of a stage's graph.

    Args:
        ops: of each node; placeholders, attributes and the output are left out of the drawing.
        inputs: the places of each node's values, before the node.
        bands: the number of the region that each node is in, -1 for none.

    Returns:
        ``boxes`` with ``band``, ``first`` (a node), ``count``, and their place, ``x`` and
        ``layer``; ``edges`` with ``from``, ``to``, ``count`` (of values that go that way) and
        ``way``, the points that they pass; ``box`` for each node, -1 if it has none; ``left``,
        ``right`` and ``layers``, the size of the plane (see :class:`.layout.Layout`).

    """
    nodes_of: list[list[int]] = []
    numbers: dict[object, int] = {}
    box: list[int] = []
    for node, key in enumerate(_boxes_of(ops, inputs, bands)):
        if key is None:
            box.append(-1)
            continue
        if key not in numbers:
            numbers[key] = len(nodes_of)
            nodes_of.append([])
        nodes_of[numbers[key]].append(node)
        box.append(numbers[key])
    crossing: dict[tuple[int, int], set[int]] = {}
    for node, sources in enumerate(inputs):
        for source in sources:
            if box[source] != box[node] and min(box[source], box[node]) >= 0:
                crossing.setdefault((box[source], box[node]), set()).add(source)
    edges = sorted(crossing)
    layout = lay_out(len(nodes_of), edges)
    return {
        "boxes": [
            {
                "band": bands[nodes[0]],
                "first": nodes[0],
                "count": len(nodes),
                "x": x,
                "layer": layer,
            }
            for nodes, x, layer in zip(nodes_of, layout.x, layout.layer, strict=True)
        ],
        "edges": [
            {"from": a, "to": b, "count": len(crossing[a, b]), "way": [list(each) for each in way]}
            for (a, b), way in zip(edges, layout.ways, strict=True)
        ],
        "box": box,
        "left": layout.left,
        "right": layout.right,
        "layers": 1 + max(layout.layer, default=-1),
    }


def _boxes_of(
    ops: Sequence[str], inputs: Sequence[Sequence[int]], bands: Sequence[int]
) -> list[object | None]:
    """Return for each node what all nodes of its box have in common; None for inputs and output."""
    before: list[int] = []  # sets of bands, as bits
    for node, sources in enumerate(inputs):
        found = 0
        for source in sources:
            found |= before[source]
        before.append(found | (1 << bands[node] if bands[node] >= 0 else 0))
    after = [0] * len(inputs)
    for node in range(len(inputs) - 1, -1, -1):
        found = after[node] | (1 << bands[node] if bands[node] >= 0 else 0)
        for source in inputs[node]:
            after[source] |= found
    return [
        None if op != "call" else ("region", band) if band >= 0 else (before[node], after[node])
        for node, (op, band) in enumerate(zip(ops, bands, strict=True))
    ]
