"""Figures as properties of tests, one each."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from pytest_fxregion.report.junit import JUnitProperties, properties
from pytest_fxregion.session import PROPERTY
from tests.unit.report.reports import FIGURES


def test_a_single_run_has_its_figures_under_our_name() -> None:
    assert dict(properties([FIGURES])) == {
        "fxregion.device": "cuda:0, virtual h100 (no GPU)",
        "fxregion.graphs": "1",
        "fxregion.regions_forward": "2",
        "fxregion.regions_backward": "1",
        "fxregion.nodes": "30",
        "fxregion.saved_bytes": "2048",
        "fxregion.gradient_accumulations": "3",
        "fxregion.worst_of_allowed": "0.125",
        "fxregion.worst_name": "output",
        "fxregion.seconds": "0.26",
    }


def test_several_runs_are_told_apart() -> None:
    runs = [FIGURES, {**FIGURES, "name": "wide"}, FIGURES]
    names = [name for name, _ in properties(runs) if name.endswith(".nodes")]
    assert names == ["fxregion.0.nodes", "fxregion.wide.nodes", "fxregion.2.nodes"]


def test_what_was_not_checked_is_left_out_and_lists_are_joined() -> None:
    run = {**FIGURES, "worst_of_allowed": None, "worst_name": None, "spilling": ["one", "two"]}
    found = dict(properties([run]))
    assert "fxregion.worst_of_allowed" not in found
    assert found["fxregion.spilling"] == "one, two"


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_only_the_report_that_junit_reads_is_changed(when: str) -> None:
    given = [("other", "1"), (PROPERTY, json.dumps(FIGURES))]
    report = pytest.TestReport(
        nodeid="a.py::test",
        location=("a.py", 0, "test"),
        keywords={},
        outcome="passed",
        longrepr=None,
        when=cast(Any, when),
        user_properties=given,
    )
    JUnitProperties().pytest_runtest_logreport(report)
    if when == "teardown":
        assert report.user_properties == [("other", "1"), *properties([FIGURES])]
    else:
        assert report.user_properties == given
