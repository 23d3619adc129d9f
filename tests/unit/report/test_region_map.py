"""The regions of a run in at most ten lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pytest_fxregion.report.region_map import MOST_LINES, region_map, region_rows


def region(name: str, stage: str = "forward", **changes: Any) -> dict[str, Any]:
    return {
        "stage": stage,
        "name": name,
        "label": "'mlp'",
        "kind": stage,
        "nodes": 3,
        "inputs": ["x", "w"],
        "outputs": ["mul"],
        "sources": ["tests/test_a.py:7"],
        "shared_with": None,
        **changes,
    }


def test_a_line_for_each_region_in_columns() -> None:
    regions = [
        region("inductor_region_0"),
        region("inductor_region_10", nodes=1, label="default", inputs=list("abcd"), sources=[]),
        region("inductor_region_0", "backward", kind="recompute"),
    ]
    assert region_map("tests/test_a.py::test", {"regions": regions}) == [
        "tests/test_a.py::test",
        "  forward              inductor_region_0   region 'mlp'    3 nodes  x, w → mul"
        "  tests/test_a.py:7",
        "  forward              inductor_region_10  region default  1 node   a, b, c, … 1 more"
        " → mul",
        "  backward, recompute  inductor_region_0   region 'mlp'    3 nodes  x, w → mul"
        "  tests/test_a.py:7",
    ]


def test_equal_regions_share_a_line() -> None:
    shared = [region(f"inductor_region_{k}", shared_with="inductor_region_0") for k in range(1, 32)]
    _, line = region_map("t", {"regions": [region("inductor_region_0"), *shared]})
    assert "  inductor_region_0 and 31 equal  " in line


def test_a_recomputed_region_is_another_line_than_the_one_it_shares_with() -> None:
    again = region("inductor_region_0", "backward", shared_with="inductor_region_0")
    lines = region_map("t", {"regions": [region("inductor_region_0"), again]})
    assert [line.split()[0] for line in lines[1:]] == ["forward", "backward"]


def test_no_more_than_ten_lines() -> None:
    nine = [region(f"inductor_region_{k}") for k in range(MOST_LINES - 1)]
    assert len(region_map("t", {"regions": nine})) == MOST_LINES
    lines = region_map("t", {"regions": [*nine, region("inductor_region_9")]})
    assert len(lines) == MOST_LINES
    assert lines[-1] == "  and 2 more like these"


def test_a_run_without_regions_says_so() -> None:
    assert region_map("t", {"regions": []}) == ["t", "  no regions"]


class _Region:
    name, label, kind, shared_with = "inductor_region_0", "default", "forward", None
    nodes, inputs, outputs = ("mul", "add"), ("x",), ("add",)
    sources = ("/root/tests/test_a.py:7", "/usr/lib/site-packages/torch/nn/functional.py:9")


class _Record:
    stage = "forward"
    regions = (_Region(),)


def test_paths_are_the_same_on_every_machine() -> None:
    (row,) = region_rows([cast(Any, _Record())], Path("/root"))
    assert row["sources"] == ["tests/test_a.py:7", "nn/functional.py:9"]
    assert (row["nodes"], row["inputs"], row["outputs"]) == (2, ["x"], ["add"])
