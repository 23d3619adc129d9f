"""What becomes of the reports of tests, as they come in from this process or from others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_fxregion.report.page import gather
from pytest_fxregion.report.page.gather import PageNotes, PageWriter

NODEID = "tests/test_a.py::test_a"


def report(
    when: str, outcome: str = "passed", note: dict[str, Any] | None = None, **more: Any
) -> pytest.TestReport:
    properties = [("other", "kept")]
    if note is not None:
        properties.append((gather._NOTE, json.dumps(note)))
    return pytest.TestReport(
        nodeid=more.pop("nodeid", NODEID),
        location=("", 0, ""),
        keywords={},
        outcome=cast(Any, outcome),
        longrepr=more.pop("longrepr", None),
        when=cast(Any, when),
        user_properties=list(properties),
        **more,
    )


class Gathered:
    """A writer, and what its page holds."""

    def __init__(self, root: Path) -> None:
        self._file = root / "out" / "page.html"
        config = SimpleNamespace(rootpath=root, option=SimpleNamespace(collectonly=False))
        self.writer = PageWriter(
            cast(Any, config), self._file, torch_version="2.13.0", device="cpu"
        )

    def take(self, *reports: pytest.TestReport) -> None:
        for each in reports:
            self.writer.pytest_runtest_logreport(each)

    def tests(self) -> dict[str, str]:
        """Write the page; return its tests' outcomes by node id."""
        self.writer.pytest_sessionfinish()
        found = re.search(r'id="index">(.*?)</script>', self._file.read_text(), re.S)
        assert found is not None
        return {test["nodeid"]: test["outcome"] for test in json.loads(found[1])["tests"]}


@pytest.fixture
def gathered(tmp_path: Path) -> Gathered:
    return Gathered(tmp_path)


def test_a_tests_phases_are_one_entry(gathered: Gathered) -> None:
    gathered.take(report("setup", note={}), report("call", note={}), report("teardown", note={}))
    assert gathered.tests() == {NODEID: "passed"}
    assert gathered.writer.lines == ["report: out/page.html"]


def test_the_last_attempt_at_a_test_counts(gathered: Gathered) -> None:
    gathered.take(report("setup", note={}), report("call", "failed", note={}))
    gathered.take(report("setup", note={}), report("call", note={}), report("teardown", note={}))
    assert gathered.tests() == {NODEID: "passed"}


def test_tests_without_the_fixture_are_left_out(gathered: Gathered) -> None:
    gathered.take(report("setup"), report("call", "failed"), report("teardown"))
    assert gathered.tests() == {}


def test_a_test_that_took_its_worker_with_it_is_an_error(gathered: Gathered) -> None:
    gathered.take(report("???", "failed", longrepr="worker 'gw0' crashed while running it"))
    assert gathered.tests() == {NODEID: "error"}


@pytest.mark.parametrize(("outcome", "expected"), [("skipped", "xfailed"), ("passed", "xpassed")])
def test_expected_failures_are_told_apart(gathered: Gathered, outcome: str, expected: str) -> None:
    gathered.take(report("setup", note={}), report("call", outcome, note={}, wasxfail="later"))
    assert gathered.tests() == {NODEID: expected}


def test_the_graphs_are_taken_from_the_report_and_the_rest_is_left(gathered: Gathered) -> None:
    given = report("call", note={"runs": []})
    gathered.take(report("setup", note={}), given)
    assert given.user_properties == [("other", "kept")]


def test_a_page_is_written_anew_even_if_nothing_ran(gathered: Gathered) -> None:
    assert gathered.tests() == {}


def test_what_cannot_be_shown_ends_no_run_and_is_said(
    gathered: Gathered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise ValueError("no such column")

    monkeypatch.setattr(gather, "_note", broken)
    item = cast(pytest.Item, SimpleNamespace(fixturenames=["fxregion"]))
    call = cast(Any, SimpleNamespace(when="call"))
    made = report("call")
    hook = PageNotes().pytest_runtest_makereport(item, call)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(made)
    gathered.take(report("setup", note={}), made)
    assert gathered.tests() == {NODEID: "passed"}
    assert gathered.writer.lines[0] == (
        f"the report lacks the graphs of {NODEID}: ValueError: no such column"
    )
