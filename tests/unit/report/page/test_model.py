"""The page's data: what is listed first, what each entry says, what a failed test's is."""

from __future__ import annotations

import pytest

from pytest_fxregion.report.page.model import Test, finite
from tests.unit.report.page.data import (
    ACCEPT,
    CHANGED,
    failed,
    page_of,
    passed,
)


def test_what_failed_is_listed_first_and_then_by_name() -> None:
    tests = [
        passed("test_b.py::test_b"),
        Test.of("test_z.py::test_z", ["passed", "failed"], "E  wrong", [], None),
        passed("test_a.py::test_a"),
        Test.of("test_y.py::test_y", ["error"], "no such fixture", [], None),
    ]
    names = [entry["nodeid"][-1] for entry in page_of(*tests).index()["tests"]]
    assert names == ["y", "z", "a", "b"]


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (["passed", "passed", "passed"], "passed"),
        (["passed", "failed", "passed"], "failed"),
        (["passed", "passed", "error"], "error"),
        (["skipped", "passed"], "skipped"),
        (["passed", "xfailed", "passed"], "xfailed"),
        (["passed", "xpassed", "passed"], "xpassed"),
    ],
)
def test_a_tests_outcome_is_its_worst_phase(outcomes: list[str], outcome: str) -> None:
    assert Test.of("test_a.py::test_a", outcomes, "", [], None).outcome == outcome


def test_an_entry_says_what_is_searched_and_filtered_by() -> None:
    entry = passed().entry()
    assert entry["devices"] == ["cuda:0, virtual h100 (no GPU)"]
    assert entry["regions"] == ["0"]
    assert entry["operators"] == [
        f"aten.{op}"
        for op in ("add.Tensor", "cos.default", "exp.default", "mul.Tensor", "sin.default")
    ]


def test_the_headline_of_a_changed_snapshot_is_its_first_words() -> None:
    assert failed().headline == CHANGED["summary"][0]


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (
            "    def test():\n>       assert 1 == 2\nE       assert 1 == 2\n\ntest_a.py:3",
            "assert 1 == 2",
        ),
        (
            "test_a.py:9: run.check()\ntest_a.py::test_a: gradients are not summed\n  w: 2",
            "test_a.py::test_a: gradients are not summed",
        ),
        (
            "E   BackendCompilerFailed: backend raised:\nE   RegionError: no such key",
            "BackendCompilerFailed: backend raised: RegionError: no such key",
        ),
        ("needs a GPU: none is there", "needs a GPU: none is there"),
        ("", ""),
    ],
)
def test_the_headline_of_another_failure_is_what_went_wrong(text: str, headline: str) -> None:
    assert Test.of("test_a.py::test_a", ["failed"], text, [], None).headline == headline


@pytest.mark.parametrize(
    "what",
    [
        "To accept what was compiled now, run:",
        "To accept what was compiled now, run where you work:",
        "To see it by itself, run:",
    ],
)
def test_what_to_do_next_is_at_the_end(what: str) -> None:
    for command in (ACCEPT, "python fxregion-artifacts/wrong.py"):
        text = f"wrong: pytest says so, run:\nnothing\n\n{what}\n{command}"
        test = Test.of("test_a.py::test_a", ["failed"], text, [], None)
        assert test.command == {"what": what, "command": command}
    assert Test.of("test_a.py::test_a", ["failed"], "E  wrong", [], None).command is None


def test_a_difference_is_not_shown_of_a_test_that_passed_at_last() -> None:
    assert Test.of("test_a.py::test_a", ["passed"], "", [], CHANGED).difference is None


def test_outcomes_are_counted_worst_first() -> None:
    page = page_of(passed(), passed("b"), Test.of("c", ["failed"], "", [], None))
    assert list(page.index()["counts"].items()) == [("failed", 1), ("passed", 2)]


def test_numbers_that_json_does_not_have_are_text() -> None:
    assert finite({"a": [float("nan"), 1.0], "b": float("-inf")}) == {
        "a": ["nan", 1.0],
        "b": "-inf",
    }
