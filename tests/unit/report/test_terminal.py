"""The rows and lines of the terminal summary, from reports as pytest hands them over."""

from __future__ import annotations

import json
import math
from typing import Any, cast

import pytest

from pytest_fxregion.report.terminal import (
    bytes_text,
    not_run_for_want_of_a_gpu,
    part_text,
    summary_table,
)
from pytest_fxregion.session import PROPERTY

FIGURES: dict[str, Any] = {
    "name": None,
    "graphs": 1,
    "regions_forward": 2,
    "regions_backward": 1,
    "nodes": 30,
    "saved_bytes": 2048,
    "gradient_accumulations": 3,
    "worst_of_allowed": 0.125,
    "worst_name": "output",
    "seconds": 0.26,
    "spilling": [],
}


def report(
    nodeid: str, *figures: dict[str, Any], when: str = "call", skipped: str | None = None
) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=nodeid,
        location=("", 0, ""),
        keywords={},
        outcome="skipped" if skipped else "passed",
        longrepr=("file.py", 1, skipped) if skipped else None,
        when=cast(Any, when),
        user_properties=[("other", "1"), *((PROPERTY, json.dumps(f)) for f in figures)],
    )


def test_a_row_a_run_sorted_by_test_and_aligned() -> None:
    named = {**FIGURES, "name": "more", "graphs": 2, "worst_of_allowed": None}
    table = summary_table([report("b.py::test_b", FIGURES, named), report("a.py::test", FIGURES)])
    assert len({len(line) for line in table}) == 1
    assert [line.split()[0] for line in table] == ["test", "a.py::test", *["b.py::test_b"] * 2]
    for part in ("2/1", "30", "2.0 KiB", "3", "0.12", "0.3 s"):
        assert f"  {part}" in table[1]
    assert table[3].startswith("b.py::test_b (more)  2/1 in 2 graphs  ")
    assert "  not checked  " in table[3]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0, "0"),
        (1e-9, "<0.01"),
        (0.1234, "0.12"),
        (1.0, "1.00"),
        (1.0001, "1.01"),
        (12.3, "12.30"),
        (8.25e8, "8.2e+08"),
        (math.inf, "inf"),
    ],
)
def test_the_part_of_what_is_allowed_tells_what_is_too_much(part: float, text: str) -> None:
    assert part_text(part) == text


def test_no_table_where_nothing_ran() -> None:
    assert summary_table([report("a.py::test")]) == []


def test_the_reports_of_set_up_and_teardown_add_no_rows() -> None:
    reports = [report("a.py::test", FIGURES, when=when) for when in ("setup", "call", "teardown")]
    assert len(summary_table(reports)) == 2


def test_gpu_tests_that_did_not_run_are_counted() -> None:
    skipped = report("a", skipped="Skipped: needs a GPU: no GPU answers")
    other = report("b", skipped="Skipped: needs --fxregion")
    assert not_run_for_want_of_a_gpu([other, report("c")]) is None
    assert not_run_for_want_of_a_gpu([skipped, other]) == "1 test not run for want of a GPU"
    assert not_run_for_want_of_a_gpu([skipped] * 2) == "2 tests not run for want of a GPU"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (3 * 2**20, "3.0 MiB"),
        (5 * 2**40, "5120.0 GiB"),
    ],
)
def test_sizes_as_people_read_them(count: int, text: str) -> None:
    assert bytes_text(count) == text
