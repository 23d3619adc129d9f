"""Boxes and edges in, places on a plane out: layers from the top, as few crossings as is cheap.

The usual way for layered drawings (Sugiyama, Tagawa, Toda 1981): each box as high as those above it
allow, a way point wherever an edge passes a layer, each layer sorted by the neighbours' places, and
then places as near to the neighbours' as the order allows.  Everything is decided by numbers, so
that equal graphs are drawn alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 8  # over the layers, down and up by turns
_BOX, _WAY_POINT = 1.0, 0.15  # how much room each takes, from side to side


@dataclass(frozen=True)
class Layout:
    """Where boxes and edges are.

    Attributes:
        x: of each box, its middle; 1 is the distance of two boxes side by side.
        layer: of each box, 0 at the top.
        ways: for each edge, in order, ``(x, layer)`` of the points that it passes.
        left: the smallest x of all, half a box to the left of it included.
        right: the largest.

    """

    x: tuple[float, ...]
    layer: tuple[int, ...]
    ways: tuple[tuple[tuple[float, int], ...], ...]
    left: float = 0.0
    right: float = 0.0


@dataclass
class _Point:
    layer: int
    size: float
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    x: float = 0.0


def lay_out(count: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Return the layout of ``count`` boxes with edges from a box to another below it."""
    if not count:
        return Layout((), (), ())
    points = [_Point(layer, _BOX) for layer in _layers(count, edges)]
    ways = _with_way_points(points, edges)
    layers: list[list[int]] = [[] for _ in range(1 + max(point.layer for point in points))]
    for at, point in enumerate(points):
        layers[point.layer].append(at)
    for layer in layers:
        _put(points, layer, [float(place) for place in range(len(layer))])
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            wanted = {at: _middle(points, at, downwards) for at in layer}
            layer.sort(key=lambda at: (wanted[at], at))
            _put(points, layer, [wanted[at] for at in layer])
    return Layout(
        x=tuple(round(point.x, 3) for point in points[:count]),
        layer=tuple(point.layer for point in points[:count]),
        ways=tuple(tuple((round(points[at].x, 3), points[at].layer) for at in way) for way in ways),
        left=round(min(point.x - point.size / 2 for point in points), 3),
        right=round(max(point.x + point.size / 2 for point in points), 3),
    )


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    missing = [len(each) for each in above]
    order = [at for at in range(count) if not missing[at]]
    layer = [0] * count
    for at in order:
        layer[at] = 1 + max((layer[source] for source in above[at]), default=-1)
        for target in below[at]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    for at in range(count):  # what depends on nothing stands near to what depends on it
        if not above[at] and below[at]:
            layer[at] = max(0, min(layer[target] for target in below[at]) - 1)
    return layer


def _with_way_points(points: list[_Point], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Add a point for each layer that a box's edges pass, and say which each edge passes."""
    passing: dict[tuple[int, int], int] = {}
    ways: list[list[int]] = []
    for source, target in edges:
        at, way = source, []
        for layer in range(points[source].layer + 1, points[target].layer):
            if (source, layer) not in passing:
                passing[source, layer] = len(points)
                points.append(_Point(layer, _WAY_POINT))
                _join(points, at, len(points) - 1)
            at = passing[source, layer]
            way.append(at)
        _join(points, at, target)
        ways.append(way)
    return ways


def _join(points: Sequence[_Point], above: int, below: int) -> None:
    points[above].below.append(below)
    points[below].above.append(above)


def _middle(points: Sequence[_Point], at: int, downwards: bool) -> float:
    near = points[at].above if downwards else points[at].below
    if not near:
        return points[at].x
    return sum(points[other].x for other in near) / len(near)


def _put(points: Sequence[_Point], layer: Sequence[int], wanted: Sequence[float]) -> None:
    """Put a layer's points in order, each as near to where it is wanted as the others allow.

    That is a regression on a rising line, by pooling neighbours that would overlap.
    """
    offsets = [0.0]
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (points[left].size + points[right].size) / 2)
    pools: list[tuple[float, int]] = []  # the sum of what its members want, and how many they are
    for want, offset in zip(wanted, offsets, strict=True):
        total, members = want - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / members:
            before = pools.pop()
            total, members = total + before[0], members + before[1]
        pools.append((total, members))
    places = [total / members for total, members in pools for _ in range(members)]
    for at, place, offset in zip(layer, places, offsets, strict=True):
        points[at].x = place + offset
