"""From failing comparisons to candidates in the artifacts folder and ``fxregion.json``.

The process that runs a test attaches what its failing comparison found to the test's report; the
one that gathers the reports (xdist's controller, or the only one) writes the files.  Candidates
that an earlier run left in the folder stay, unless this run settled them: their test ran again on
the same variant and passed, or failed with another value.  What is removed is said.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.collection import is_fxregion_test
from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.report.failure import read_failure
from pytest_fxregion.report.machine import (
    DEFAULT_FOLDER,
    FILE,
    Candidate,
    Failure,
    MachineReport,
    TestEntry,
    fingerprint,
    parse_report,
    resolve_inside,
    write_report,
)
from pytest_fxregion.session import PROPERTY
from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, parse_document
from pytest_fxregion.snapshots.files import remove, write_atomically
from pytest_fxregion.snapshots.forwarding import is_a_copy
from pytest_fxregion.snapshots.graph import is_graph_text, parse_graphs
from pytest_fxregion.snapshots.ledger import TestRecord, same_sections
from pytest_fxregion.snapshots.session import is_gone
from pytest_fxregion.snapshots.settings import under_ci
from pytest_fxregion.snapshots.storage import RECORD, SETTINGS, RegionSnapshotExtension

_NOTE = "fxregion-candidates"
_SEEN = pytest.StashKey[int]()
_WRITER = pytest.StashKey["CandidateWriter"]()


def configure(config: pytest.Config, *, torch_version: str) -> None:
    """Begin: call once the snapshots are configured, on the controller and on every worker."""
    settings = config.stash[SETTINGS]
    if settings.artifacts is None:
        return
    config.pluginmanager.register(CandidateNotes(), "fxregion-candidate-notes")
    if not hasattr(config, "workerinput"):
        writer = CandidateWriter(config, settings.artifacts, torch_version)
        config.stash[_WRITER] = writer
        config.pluginmanager.register(writer, "fxregion-candidate-writer")


def summary_lines(config: pytest.Config) -> list[str]:
    """Return what the terminal summary should say about candidates; nothing if there are none."""
    writer = config.stash.get(_WRITER, None)
    return writer.lines(config.invocation_params.dir) if writer is not None else []


def this_run(config: pytest.Config) -> MachineReport | None:
    """Return what this run found so far; None in a process that does not gather the reports."""
    writer = config.stash.get(_WRITER, None)
    return writer.report() if writer is not None else None


class CandidateNotes:
    """Where tests run: attaches to each report what its failing comparison found."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if is_fxregion_test(item):
            report.user_properties.append((_NOTE, json.dumps(_note(item, call, report))))
        return report


def _note(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> dict[str, Any]:
    record = item.stash.get(RECORD, None)
    if record is None:
        return {"removable": [], "found": None}
    results = record.results[item.stash.get(_SEEN, 0) :]
    item.stash[_SEEN] = 0 if call.when == "teardown" else len(record.results)
    found = None
    if report.failed and call.excinfo is not None and results:
        last = results[-1]  # a failing comparison ends the test, or the part of it that is reported
        placed = RegionSnapshotExtension.placements.get(last.snapshot_location)
        failed = not last.success and last.exception is None
        if failed and placed is not None and isinstance(last.asserted_data, str):
            target = placed[1].target
            stored = placed[1].stored()
            # Not one that was asked to differ (``!=``), or whose failure the test caught.
            if record.settings.shown(stored or target) in str(call.excinfo.value):
                new = last.asserted_data
                found = _found(record, target, stored, last.recalled_data, new)
                found["in_a_copy"] = is_a_copy(item.config)
    return {"removable": record.export()["removable"], "found": found}


def _found(
    record: TestRecord, target: Path, stored: Path | None, old_text: object, new_text: str
) -> dict[str, Any]:
    settings = record.settings
    new = parse_document(new_text, source="the new value")
    name = names.parse_file_name(target.name)
    old = None
    if stored is not None and isinstance(old_text, str):
        old = parse_document(old_text, source=settings.shown(stored))
    candidate = Candidate(
        snapshot=settings.shown(target),
        candidate="snapshots/" + target.relative_to(settings.root).as_posix(),
        compared_with=settings.shown(stored) if old is not None and stored is not None else None,
        compared_sha256=fingerprint(old) if old is not None else None,
        variant=name.variant if name else None,
        kind="new" if old is None else "changed",
        summary=contents(new) if old is None else describe(old, new).summary,
    )
    return {"candidate": asdict(candidate), "text": new_text}


def contents(document: Document) -> tuple[str, ...]:
    """Say what a document holds that has nothing to be compared with."""
    parts = []
    for section in document.sections:
        graphs = parse_graphs(section.text) if is_graph_text(section.text) else ()
        count = sum(node.op == "call" for graph in graphs for node in graph.nodes)
        plural = "s" if count != 1 else ""
        parts.append(section.title + (f" ({count} operation{plural})" if graphs else ""))
    return ("no snapshot yet; the new one holds", *(f"  {part}" for part in parts))


@dataclass
class _Test:
    """What the reports of one test say, as they come in."""

    outcomes: set[str] = field(default_factory=set)
    figures: tuple[dict[str, Any], ...] = ()
    removable: frozenset[str] = frozenset()
    candidates: dict[str, Candidate] = field(default_factory=dict)
    failure: Failure | None = None

    def entry(self, nodeid: str) -> TestEntry:
        worst = ("failed", "error", "xfailed", "skipped", "xpassed")
        outcome = next((each for each in worst if each in self.outcomes), "passed")
        candidates = tuple(self.candidates.values()) if outcome in {"failed", "error"} else ()
        return TestEntry(
            nodeid, outcome, figures=self.figures, candidates=candidates, failure=self.failure
        )


class CandidateWriter:
    """Where reports are gathered: writes candidates as they come, and the report at the end."""

    def __init__(self, config: pytest.Config, folder: Path, torch_version: str) -> None:
        self._config = config
        self._settings = config.stash[SETTINGS]
        self._folder = folder
        self._torch = torch_version
        self._tests: dict[str, _Test] = {}
        self._problems: list[str] = []
        self._removed: list[str] = []
        self._written: set[str] = set()
        self._open = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = [str(value) for name, value in report.user_properties if name == _NOTE]
        if noted:
            # A whole graph is of no use to others that read reports, JUnit's among them.
            report.user_properties = [p for p in report.user_properties if p[0] != _NOTE]
        if report.when == "setup":  # also of another attempt, where tests are run again
            self._tests.pop(report.nodeid, None)
        if noted:
            self._tests.setdefault(report.nodeid, _Test())
        test = self._tests.get(report.nodeid)
        if test is None:
            return  # it has nothing to do with fxregion
        test.outcomes.add(_outcome(report))
        if report.failed and test.failure is None:
            test.failure = read_failure(report, self._settings.rootdir)
        if report.when == "call":
            figures = (str(value) for name, value in report.user_properties if name == PROPERTY)
            test.figures = tuple(json.loads(text) for text in figures)
        for text in noted:
            note = json.loads(text)
            test.removable |= frozenset(note["removable"])
            if note["found"] is not None:
                self._keep(test, note["found"])

    def _keep(self, test: _Test, found: dict[str, Any]) -> None:
        candidate = Candidate(
            **{**found["candidate"], "summary": tuple(found["candidate"]["summary"])}
        )
        try:
            write_atomically(self._folder / candidate.candidate, found["text"])
            if found["in_a_copy"]:
                self._keep_whole_diff(candidate, found["text"])
        except (OSError, SnapshotError) as error:
            self._problems.append(f"could not keep the candidate for {candidate.snapshot}: {error}")
        else:
            test.candidates[candidate.snapshot] = candidate
            self._written.add(candidate.candidate)

    def _keep_whole_diff(self, candidate: Candidate, new: str) -> None:
        """Write what the failure's text names: a worker in a copy of the project has it there."""
        file = self._folder / candidate.candidate
        whole = file.with_name(file.name.removesuffix(names.SUFFIX) + ".diff")
        if candidate.compared_with is None:
            return
        stored = self._settings.rootdir / candidate.compared_with
        old = parse_document(stored.read_text(encoding="utf-8"), source=candidate.compared_with)
        found = describe(old, parse_document(new, source=candidate.snapshot))
        write_atomically(whole, "\n".join([*found.summary, "", *found.lines]) + "\n")

    def report(self) -> MachineReport:
        """Return what this run found, by node id."""
        entries = (test.entry(nodeid) for nodeid, test in sorted(self._tests.items()))
        return MachineReport(self._torch, self._settings.device, tuple(entries))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if not self._tests:
            return
        entries = list(self.report().tests)
        kept = {each.candidate for entry in entries for each in entry.candidates}
        for path in self._written - kept:  # another attempt at its test passed
            self._remove(self._folder / path)
        file = self._folder / FILE
        unclean = any(entry.outcome in {"failed", "error"} for entry in entries)
        if not (unclean or file.exists() or under_ci()):
            return
        try:
            with _locked(self._folder):
                entries = self._with_earlier(entries, self._read(file))
                report = MachineReport(self._torch, self._settings.device, tuple(entries))
                write_atomically(file, write_report(report))
                self._keep_out_of_git()
        except OSError as error:
            self._problems.append(f"could not write {self._settings.shown(file)}: {error}")
        self._open = sum(len(entry.candidates) for entry in entries)

    def _keep_out_of_git(self) -> None:
        """Have git ignore the folder, unless it is one that the user has named."""
        ignored = self._folder / ".gitignore"
        if self._folder.name == DEFAULT_FOLDER and not ignored.exists():
            write_atomically(ignored, "*\n")

    def _read(self, file: Path) -> tuple[TestEntry, ...]:
        try:
            text = file.read_text(encoding="utf-8")
            return parse_report(text, source=self._settings.shown(file)).tests
        except FileNotFoundError:
            return ()
        except (SnapshotError, UnicodeDecodeError) as error:
            self._problems.append(
                f"replaced {self._settings.shown(file)}, as it was no use: {error}"
            )
            return ()

    def _with_earlier(
        self, entries: list[TestEntry], earlier: Iterable[TestEntry]
    ) -> list[TestEntry]:
        """Add the candidates of an earlier run that this one has not settled."""
        found = {entry.nodeid: entry for entry in entries}
        now = {each.snapshot for entry in entries for each in entry.candidates}
        passed = {entry.nodeid for entry in entries if entry.outcome in {"passed", "xpassed"}}
        for old in earlier:
            kept = tuple(
                each
                for each in old.candidates
                if each.snapshot not in now
                and not self._settled(each, old.nodeid, passes=old.nodeid in passed)
            )
            if not kept:
                continue
            new = found.get(old.nodeid)
            if new is None:
                new = replace(old, earlier=True, candidates=())
            found[old.nodeid] = replace(new, candidates=(*new.candidates, *kept))
        return list(found.values())

    def _settled(self, candidate: Candidate, nodeid: str, *, passes: bool) -> bool:
        """Say whether an earlier candidate is of no use any more; remove it if so."""
        try:
            file = resolve_inside(self._folder, candidate.candidate)
        except SnapshotError:
            return True  # not written by us; whatever it means stays where it is
        if not file.is_file():
            return True
        if self._accepted(file, candidate):
            reason = "it was accepted"
        elif passes and (candidate.variant or "") in self._tests[nodeid].removable:
            reason = "its test passes now"
        elif is_gone(self._config, nodeid):
            reason = "its test is gone"
        else:
            return False
        self._remove(file)
        self._removed.append(f"candidate removed, as {reason}: {self._settings.shown(file)}")
        return True

    def _remove(self, file: Path) -> None:
        for each in (file, file.with_name(file.name.removesuffix(names.SUFFIX) + ".diff")):
            remove(each, self._folder)

    def _accepted(self, file: Path, candidate: Candidate) -> bool:
        try:
            snapshot = resolve_inside(self._settings.rootdir, candidate.snapshot)
            return same_sections(snapshot.read_text("utf-8"), file.read_text("utf-8"))
        except (OSError, SnapshotError, UnicodeDecodeError):
            return False

    def lines(self, start: Path) -> list[str]:
        """Return the lines for the terminal; ``start`` is the folder that commands are typed in."""
        lines = [*self._removed, *self._problems]
        plural = "s" if self._open > 1 else ""
        if self._open and not self._settings.inside_rootdir(self._settings.root):
            lines.append(
                f"{self._open} candidate{plural}, not for review as the snapshots are outside of "
                "pytest's root folder: the last line of each failure accepts it"
            )
        elif self._open:
            words = ["python", "-m", "pytest_fxregion", "review"]
            folder = os.path.relpath(self._folder, start)
            if folder != DEFAULT_FOLDER:
                words.append(folder)
            if start != self._settings.rootdir:
                words += ["--root", os.path.relpath(self._settings.rootdir, start)]
            lines.append(f"{self._open} candidate{plural} to review: {shlex.join(words)}")
        return lines


def _outcome(report: pytest.TestReport) -> str:
    expected = hasattr(report, "wasxfail")
    if report.outcome == "failed":
        return "error" if report.when in {"setup", "teardown"} else "failed"
    if report.outcome == "skipped":
        return "xfailed" if expected else "skipped"
    return "xpassed" if expected and report.when == "call" else "passed"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs from changing the report between reading and writing it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
