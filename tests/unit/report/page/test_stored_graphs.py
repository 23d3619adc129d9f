"""Every graph that the suite keeps can be shown: nothing is lost of it, nothing left unresolved."""

from __future__ import annotations

import re

from pytest_fxregion.report.page.listing import Labels, Stage, listing
from pytest_fxregion.report.page.region_graph import region_graph
from tests.unit.report.page.stored import stored_stages

STAGES = list(stored_stages())


def test_there_are_graphs_to_look_at() -> None:
    assert len(STAGES) > 100
    assert {stage.name for _, stage in STAGES} == {"joint", "forward", "backward", "inference"}


def test_every_argument_that_is_a_value_can_be_followed() -> None:
    followed = 0
    for where, stage in STAGES:
        nodes = listing(stage, Labels())["nodes"]
        for name, args, inputs in zip(nodes["name"], nodes["args"], nodes["inputs"], strict=True):
            assert args.count("·") == len(inputs), f"{name} of {where}"
            followed += len(inputs)
    assert followed > 10_000


def test_values_come_before_what_uses_them() -> None:
    for where, stage in STAGES:
        nodes = listing(stage, Labels())["nodes"]
        for at, inputs in enumerate(nodes["inputs"]):
            assert all(source < at for source in inputs), f"{nodes['name'][at]} of {where}"


def test_every_region_stands_in_the_place_of_its_call_and_is_one_stretch() -> None:
    for where, stage in STAGES:
        found = listing(stage, Labels())
        assert {band["piece"] for band in found["bands"] if band["piece"]} == _called(stage), where
        bands = found["nodes"]["band"]
        for number, band in enumerate(found["bands"]):
            if band["piece"]:
                places = [at for at, each in enumerate(bands) if each == number]
                assert places == list(range(places[0], places[-1] + 1)), f"{where}: {band}"


def test_every_saved_value_has_its_place_in_the_forward_and_in_the_backward() -> None:
    for where, stage in STAGES:
        if stage.name in {"forward", "backward"}:
            found = listing(stage, Labels())
            assert [entry["name"] for entry in found["saved"]] == list(stage.saved), where


def test_every_drawing_goes_down() -> None:
    for where, stage in STAGES:
        if stage.name == "joint":
            continue
        nodes = listing(stage, Labels())["nodes"]
        drawing = region_graph(nodes["op"], nodes["inputs"], nodes["band"])
        layer = [box["layer"] for box in drawing["boxes"]]
        assert all(layer[edge["from"]] < layer[edge["to"]] for edge in drawing["edges"]), where


def _called(stage: Stage) -> set[str]:
    return set(re.findall(r"= (inductor_region_\d+)\(", stage.text))
