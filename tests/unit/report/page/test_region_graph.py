"""How nodes are condensed to the boxes of a drawing."""

from __future__ import annotations

import random

from pytest_fxregion.report.page.region_graph import region_graph


def boxes(bands: list[int], inputs: list[list[int]], ops: str = "") -> list[list[int]]:
    """Return the nodes of each box; ``ops`` has ``p`` for placeholders, ``o`` for the output."""
    kinds = {"p": "placeholder", "o": "output"}
    found = region_graph(
        [kinds.get(op, "call") for op in ops.ljust(len(bands), "c")], inputs, bands
    )
    return [
        [node for node, box in enumerate(found["box"]) if box == at]
        for at in range(len(found["boxes"]))
    ]


def test_what_lies_before_and_after_a_region_are_two_boxes() -> None:
    assert boxes([-1, -1, 0, 0, -1], [[], [0], [1], [2], [3]]) == [[0, 1], [2, 3], [4]]


def test_what_goes_past_a_region_is_a_box_of_its_own() -> None:
    # 1 goes round region 0 from 0 to 3
    assert boxes([-1, -1, 0, -1], [[], [0], [0], [1, 2]]) == [[0], [1], [2], [3]]


def test_inputs_and_output_are_not_drawn() -> None:
    found = region_graph(["placeholder", "call", "output"], [[], [0], [1]], [-1, -1, -1])
    assert found["box"] == [-1, 0, -1]
    assert found["edges"] == []


def test_an_edge_counts_values_and_not_uses() -> None:
    found = region_graph(["call"] * 4, [[], [], [0, 1], [0, 0]], [-1, -1, 0, 0])
    (edge,) = found["edges"]
    assert (edge["from"], edge["to"], edge["count"]) == (0, 1, 2)


def test_without_regions_there_is_one_box() -> None:
    assert boxes([-1] * 4, [[], [0], [0], [1, 2]]) == [[0, 1, 2, 3]]


def test_drawings_have_no_cycles_whatever_the_graph() -> None:
    for seed in range(80):
        draw = random.Random(seed)
        count = draw.randint(1, 40)
        inputs = [
            sorted(draw.sample(range(node), min(node, draw.randint(0, 3)))) for node in range(count)
        ]
        # Regions as they are compiled: stretches of the order, so that none needs itself.
        bands = [-1] * count
        for band in range(draw.randint(0, 4)):
            start = draw.randrange(count)
            for node in range(start, min(count, start + draw.randint(1, 6))):
                if bands[node] < 0:
                    bands[node] = band
        if any(
            bands.index(band) + bands.count(band) - 1 != count - 1 - bands[::-1].index(band)
            for band in set(bands) - {-1}
        ):
            continue
        found = region_graph(["call"] * count, inputs, bands)
        layer = [box["layer"] for box in found["boxes"]]
        assert all(layer[edge["from"]] < layer[edge["to"]] for edge in found["edges"])
        assert sum(box["count"] for box in found["boxes"]) == count
