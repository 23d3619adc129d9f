"""From the runs of tests to the page's file, through the reports of tests.

The process that runs a test attaches what the page shows of it to the test's report; the one that
gathers the reports (xdist's controller, or the only one) writes the page at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.collection import is_fxregion_test
from pytest_fxregion.report.page.model import Page, Test
from pytest_fxregion.snapshots.files import write_atomically

# What differs between equal runs: addresses, and the line that says which worker it was.
_CHANGING = re.compile(r"(?<= object) at 0x[0-9a-fA-F]+|^\[gw\d+\] .* -- Python .*\n")
_NOTE = "fxregion-page"
_WRITER = pytest.StashKey["PageWriter"]()


def configure(config: pytest.Config, file: Path, *, torch_version: str, device: str) -> None:
    """Begin: call once, on the controller and on every worker, where a page is asked for."""
    config.pluginmanager.register(PageNotes(), "fxregion-page-notes")
    if not hasattr(config, "workerinput"):
        writer = PageWriter(config, file, torch_version=torch_version, device=device)
        config.stash[_WRITER] = writer
        config.pluginmanager.register(writer, "fxregion-page-writer")


def summary_lines(config: pytest.Config) -> list[str]:
    """Return what the terminal summary should say about the page; nothing if none was asked for."""
    writer = config.stash.get(_WRITER, None)
    return writer.lines if writer is not None else []


class PageNotes:
    """Where tests run: attaches to each report what the page shows of it."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if is_fxregion_test(item):
            try:
                note = _note(item, call)
            except Exception as error:  # a page must not be what ends a run
                note = {"problem": f"{type(error).__name__}: {error}"}
            report.user_properties.append((_NOTE, json.dumps(note)))
        return report


def _note(item: pytest.Item, call: pytest.CallInfo[None]) -> dict[str, Any]:
    from pytest_fxregion.report.page.collect import run_data
    from pytest_fxregion.report.page.difference import difference
    from pytest_fxregion.session import runs_of
    from pytest_fxregion.snapshots.assertion import failed_comparison
    from pytest_fxregion.snapshots.storage import SETTINGS

    note: dict[str, Any] = {}
    if call.when == "call":
        note["runs"] = [run_data(run, item.config.rootpath) for run in runs_of(item)]
    found = failed_comparison(item, call)
    if found is not None and found.outcome in {"different", "missing"}:
        note["difference"] = {
            "path": item.config.stash[SETTINGS].shown(found.path),
            **difference(found.stored, found.new),
        }
    return note


@dataclass
class _Reports:
    """What the reports of one test say, as they come in."""

    outcomes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    note: dict[str, Any] = field(default_factory=dict)


class PageWriter:
    """Where reports are gathered: writes the page at the end."""

    def __init__(
        self, config: pytest.Config, file: Path, *, torch_version: str, device: str
    ) -> None:
        self.lines: list[str] = []
        self._config = config
        self._file = file
        self._torch = torch_version
        self._device = device
        self._tests: dict[str, _Reports] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        notes = [str(value) for name, value in report.user_properties if name == _NOTE]
        if notes:
            # The graphs are of no use to others that read reports, JUnit's among them.
            report.user_properties = [p for p in report.user_properties if p[0] != _NOTE]
        if report.when == "setup":  # also of another attempt, where tests are run again
            self._tests.pop(report.nodeid, None)
        crashed = report.failed and report.when not in {"setup", "call", "teardown"}
        if notes or crashed:
            self._tests.setdefault(report.nodeid, _Reports())
        test = self._tests.get(report.nodeid)
        if test is None:
            return  # it has nothing to do with fxregion
        test.outcomes.append(_outcome(report))
        text = _text(report)
        if text:
            test.texts.append(text)
        for note in notes:
            test.note.update(json.loads(note))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file of tests that could not be collected."""
        if report.failed:
            self._tests[report.nodeid] = _Reports(["error"], [report.longreprtext])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._config.option.collectonly:
            return
        from pytest_fxregion.report.page.render import render

        tests = [
            Test.of(
                nodeid,
                reports.outcomes,
                "\n\n".join(reports.texts),
                reports.note.get("runs", []),
                reports.note.get("difference"),
            )
            for nodeid, reports in self._tests.items()
        ]
        self.lines += [
            f"the report lacks the graphs of {nodeid}: {reports.note['problem']}"
            for nodeid, reports in sorted(self._tests.items())
            if "problem" in reports.note
        ]
        shown = self._shown()
        try:
            write_atomically(self._file, render(Page(self._torch, self._device, tests)))
        except OSError as error:
            self.lines.append(f"could not write the report {shown}: {error.strerror}")
        else:
            self.lines.append(f"report: {shown}")

    def _shown(self) -> str:
        root = self._config.rootpath
        inside = self._file.is_relative_to(root)
        return self._file.relative_to(root).as_posix() if inside else str(self._file)


def _outcome(report: pytest.TestReport) -> str:
    expected = hasattr(report, "wasxfail")
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    if report.outcome == "skipped":
        return "xfailed" if expected else "skipped"
    return "xpassed" if expected and report.when == "call" else "passed"


def _text(report: pytest.TestReport) -> str:
    """Return why a test did not pass."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    text = str(getattr(report, "wasxfail", "") or report.longreprtext)
    return _CHANGING.sub("", text).strip("\n")
