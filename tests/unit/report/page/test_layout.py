"""Where boxes of a drawing go: below what they need, beside each other, edges around them."""

from __future__ import annotations

import random
from itertools import pairwise

from pytest_fxregion.report.page.layout import Layout, lay_out


def test_nothing_to_draw_has_no_size() -> None:
    assert lay_out(0, []) == Layout((), (), ())


def test_a_chain_is_a_straight_line() -> None:
    layout = lay_out(4, [(0, 1), (1, 2), (2, 3)])
    assert layout.layer == (0, 1, 2, 3)
    assert len(set(layout.x)) == 1


def test_two_ways_are_beside_each_other_and_symmetric() -> None:
    layout = lay_out(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert layout.layer == (0, 1, 1, 2)
    assert layout.x[2] - layout.x[1] == 1
    assert layout.x[0] == layout.x[3] == (layout.x[1] + layout.x[2]) / 2


def test_a_long_edge_passes_each_layer_beside_the_boxes() -> None:
    layout = lay_out(3, [(0, 1), (0, 2), (1, 2)])
    ((x, layer),) = layout.ways[1]
    assert layer == 1
    assert abs(x - layout.x[1]) >= 0.5
    assert layout.ways[0] == layout.ways[2] == ()


def test_what_depends_on_nothing_is_just_above_what_needs_it() -> None:
    layout = lay_out(4, [(0, 1), (1, 2), (3, 2)])
    assert layout.layer[3] == 1


def test_boxes_never_overlap_and_edges_go_down_whatever_the_graph() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        count = draw.randint(1, 30)
        possible = [(a, b) for b in range(count) for a in range(b)]
        edges = sorted(draw.sample(possible, min(len(possible), draw.randint(0, 60))))
        layout = lay_out(count, edges)
        for (source, target), way in zip(edges, layout.ways, strict=True):
            layers = [layout.layer[source], *(layer for _, layer in way), layout.layer[target]]
            assert layers == list(range(layers[0], layers[-1] + 1))
            assert len(layers) > 1
        by_layer: dict[int, list[float]] = {}
        for x, layer in zip(layout.x, layout.layer, strict=True):
            by_layer.setdefault(layer, []).append(x)
        for places in by_layer.values():
            assert all(b - a >= 0.999 for a, b in pairwise(sorted(places)))
            assert layout.left <= min(places) - 0.499
            assert layout.right >= max(places) + 0.499


def test_the_layout_of_a_graph_is_always_the_same() -> None:
    edges = [(0, 2), (0, 3), (1, 2), (1, 4), (2, 5), (3, 5), (4, 5)]
    assert lay_out(6, edges) == lay_out(6, list(edges))
