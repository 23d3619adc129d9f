"""What the plugin's hooks and fixtures call: a run's snapshots from configuration to summary.

Each process of a run keeps its own books in ``config.stash``.  Under xdist the workers run the
tests and write what passed; at their end they hand their books to the controller, which alone
removes files and reports.  Every function does nothing in a run that was not configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_fxregion.commands import test_command
from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.assertion import RegionSnapshot
from pytest_fxregion.snapshots.clashes import clashes_with_files_left_out, why_they_clash
from pytest_fxregion.snapshots.files import remove
from pytest_fxregion.snapshots.forwarding import (
    WORKER_INPUT,
    Receiver,
    identity,
    is_a_copy,
    send,
)
from pytest_fxregion.snapshots.ledger import TestRecord, discard, flush, unused_files
from pytest_fxregion.snapshots.orphans import (
    DESELECTED,
    DROPPED,
    NOT_RUN,
    Coverage,
    find_orphans,
)
from pytest_fxregion.snapshots.settings import Settings, place_of, under_ci, without_repetition
from pytest_fxregion.snapshots.storage import RECORD, SETTINGS, RegionSnapshotExtension

WORKER_OUTPUT = "fxregion_snapshots"


@dataclass
class Books:
    """The run's state: what tests did, what was seen of the suite, what to tell at the end."""

    settings: Settings
    coverage: Coverage = field(default_factory=Coverage)
    records: dict[str, TestRecord] = field(default_factory=dict)
    clashes: dict[str, str] = field(default_factory=dict)
    exported: list[dict[str, Any]] = field(default_factory=list)
    """Exported records: those of workers as they come in, then this process's own."""
    discarded: list[tuple[str, str]] = field(default_factory=list)
    """Files left as they were although an update was asked for, and the test that did not pass."""
    redundant: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    receiver: Receiver | None = None
    """Takes what workers in copies of the project have written; there on the controller alone."""


BOOKS = pytest.StashKey[Books]()


def configure(
    config: pytest.Config,
    *,
    snapshot_dir: Path,
    tests_root: Path | None = None,
    device: str,
    variants: Sequence[str] = (),
    torch_version: str | None = None,
    record: str | None = None,
    allow_ci_update: bool = False,
    artifacts: Path | None = None,
    command_options: Sequence[str] = ("--fxregion",),
) -> None:
    """Begin: call from ``pytest_configure``, on the controller and on every worker.

    Args:
        config: pytest's.
        snapshot_dir: the folder that holds the snapshots; relative to pytest's root folder.
        tests_root: the folder left out of a snapshot's path; ``<rootdir>/tests`` if not given.
        device: what tests run on, for messages.
        variants: the device's variants, most specific first; none for CUDA, real or virtual,
            which owns the base files.
        torch_version: adds the variant of torch's minor version.
        record: the variant that the user asked to record.
        allow_ci_update: write under CI too.
        artifacts: where new values and whole diffs of failing comparisons go.
        command_options: the options that make a run like this one, for the command that accepts.

    Raises:
        SnapshotError: ``record`` cannot name a variant, or names that of other runs.

    """
    names.all_variants(variants, torch_version=torch_version, record=record)
    if record:
        names.check_recorded(record, names.all_variants(variants, torch_version=torch_version))
    may_write = allow_ci_update or not under_ci()
    settings = Settings(
        root=config.rootpath / snapshot_dir,
        rootdir=config.rootpath,
        tests_root=config.rootpath / (tests_root or "tests"),
        device=device,
        device_variants=tuple(variants),
        torch_version=torch_version,
        record=record,
        update=bool(config.option.update_snapshots),
        may_write=may_write,
        command=tuple(command_options),
        artifacts=config.rootpath / artifacts if artifacts is not None else None,
    )
    config.stash[SETTINGS] = settings
    config.stash[BOOKS] = books = Books(settings)
    if not hasattr(config, "workerinput"):
        books.receiver = Receiver(settings.root)
        config.pluginmanager.register(books.receiver, "fxregion-snapshot-receiver")


def worker_started(node: Any) -> None:
    """Tell a worker which project this is: call from xdist's ``pytest_configure_node``."""
    node.workerinput[WORKER_INPUT] = identity(node.config.rootpath)


def item_collected(item: pytest.Item) -> None:
    """Note a test: call from ``pytest_itemcollected``, before anything may drop it."""
    if books := item.config.stash.get(BOOKS, None):
        books.coverage.collected.add(item.nodeid)


def module_collected(config: pytest.Config, report: pytest.CollectReport) -> None:
    """Note a test file: call from ``pytest_collectreport``."""
    books = config.stash.get(BOOKS, None)
    if books is None:
        return
    if report.outcome == "failed":
        books.coverage.narrow("a test file could not be collected")
    path = config.rootpath / report.nodeid
    if report.outcome == "passed" and "::" not in report.nodeid and path.is_file():
        settings = books.settings
        folder = names.folder_for(path, settings.rootdir, settings.tests_root)
        books.coverage.modules.add(str(folder))


def deselected(config: pytest.Config) -> None:
    """Note that tests were deselected: call from ``pytest_deselected``."""
    if books := config.stash.get(BOOKS, None):
        books.coverage.narrow(DESELECTED)


def check_name_clashes(items: Sequence[pytest.Item], fixtures: frozenset[str]) -> None:
    """Find tests whose snapshots would share a file: call from ``pytest_collection_modifyitems``.

    Each of them then fails in the set-up of its fixture; raising here would be an internal error
    under xdist.

    Args:
        items: the collected tests.
        fixtures: names of the fixtures that use snapshots.

    """
    books = items[0].config.stash.get(BOOKS, None) if items else None
    if books is None:
        return
    settings = books.settings
    places: dict[tuple[str, PurePosixPath, str], None] = {}
    for item in items:
        if fixtures.intersection(getattr(item, "fixturenames", ())):
            try:
                place = place_of(item, settings)
            except SnapshotError:
                continue  # is said where the test sets its fixture up
            places[without_repetition(item, item.nodeid), place.folder, place.stem] = None
    books.clashes = names.clashes(places)
    for test, other in clashes_with_files_left_out(items, fixtures, settings):
        books.clashes.setdefault(test, other)


def collection_finished(session: pytest.Session) -> None:
    """Note what was left out: call from ``pytest_collection_finish``, last."""
    config = session.config
    books = config.stash.get(BOOKS, None)
    if books is None:
        return
    option = config.option
    coverage = books.coverage
    for given, reason in (
        (option.keyword, "-k"),
        (option.markexpr, "-m"),
        (option.deselect, "--deselect"),
        (option.ignore, "--ignore"),
        (option.ignore_glob, "--ignore-glob"),
        (getattr(option, "lf", False), "--last-failed"),
        (getattr(option, "stepwise", False), "--stepwise"),
        (option.collectonly, "--collect-only"),
        (_paths_given(config), "only some paths were given"),
    ):
        if given:
            coverage.narrow(reason)
    if coverage.collected - {item.nodeid for item in session.items}:
        coverage.narrow(DROPPED)


def make_snapshot(
    snapshot: SnapshotAssertion,
    request: pytest.FixtureRequest,
    *,
    provenance: str = "",
    variants: Sequence[str] | None = None,
) -> RegionSnapshot:
    """Return the value of the ``fxregion_snapshot`` fixture.

    Args:
        snapshot: syrupy's fixture.
        request: the fixture request of the test.
        provenance: for the first line of values that bring none.
        variants: of the test's device, if a marker says another one than the run's options.

    Raises:
        SnapshotError: the test has no place for snapshots, or another test has the same one.

    """
    item = request.node
    books = item.config.stash[BOOKS]
    settings = books.settings
    other = books.clashes.get(without_repetition(item, item.nodeid))
    if other is not None:
        raise SnapshotError(
            f"the snapshots of {item.nodeid} and {other} would have the same file name "
            + why_they_clash(item.nodeid, other)
        )
    record = _record(item, books)
    record.provenance = provenance
    if variants is not None:
        record.device_variants = tuple(variants)
    return RegionSnapshot(
        session=snapshot.session,
        extension_class=RegionSnapshotExtension,
        test_location=snapshot.test_location,
        update_snapshots=snapshot.update_snapshots and settings.may_write,
        update_new_snapshots_only=snapshot.update_new_snapshots_only and settings.may_write,
    )


def note_report(item: pytest.Item, report: pytest.TestReport) -> None:
    """Follow a test; write its new values once it has passed.

    Call from ``pytest_runtest_makereport``, wrapping every other plugin
    (``wrapper=True, tryfirst=True``), as the report is changed if writing fails.
    """
    books = item.config.stash.get(BOOKS, None)
    if books is None:
        return
    try:
        record = _record(item, books)
    except SnapshotError:  # a test outside the root folder has no snapshots
        return
    if report.outcome != "passed" or hasattr(report, "wasxfail"):
        record.sound = False
    if report.when != "teardown":
        return
    record.finished = True
    if record.passed:
        try:
            redundant = flush(record, books.settings.update and books.settings.may_write)
        except OSError as error:
            report.outcome = "failed"
            again = test_command(item, [*books.settings.command, "--snapshot-update"])
            report.longrepr = (
                f"cannot write the snapshots of {item.nodeid}: {error}\n\nTo try again:\n{again}"
            )
            record.sound = False
        else:
            books.redundant += [books.settings.shown(path) for path in redundant]
            if record.written and is_a_copy(item.config):
                send(report, books.settings.root, record.written)
    if not record.passed:
        _discard(record, books)
    RegionSnapshotExtension.forget(record)


def worker_finished(node: Any) -> None:
    """Take a worker's books: call from ``pytest_testnodedown`` on the xdist controller."""
    books = node.config.stash.get(BOOKS, None)
    if books is None:
        return
    output = (getattr(node, "workeroutput", None) or {}).get(WORKER_OUTPUT)
    if output is None:
        books.coverage.narrow("a worker crashed")
        return
    books.coverage.merge(output["coverage"])
    books.exported += output["records"]
    books.discarded += [(path, test) for path, test in output["discarded"]]
    books.redundant += output["redundant"]


def is_gone(config: pytest.Config, nodeid: str) -> bool:
    """Say whether a test of an earlier run is no more: call once all tests were collected.

    Its file is gone, or it is not in the file any more.  Where tests were given by id, nothing is
    known of the others in their files; of a folder that is not there, which may be one of another
    project that writes its artifacts into the same place, neither.
    """
    books = config.stash[BOOKS]
    settings, coverage = books.settings, books.coverage
    file = settings.rootdir / nodeid.partition("::")[0]
    if not file.is_file():
        return file.parent.is_dir()
    folder = names.folder_for(file, settings.rootdir, settings.tests_root)
    collected = str(folder) in coverage.modules and not any("::" in arg for arg in config.args)
    return collected and nodeid not in coverage.collected


def session_ends(session: pytest.Session) -> None:
    """Let go of what an interrupted test has held back: call before syrupy counts.

    Of such a test there is no report.
    """
    books = session.config.stash.get(BOOKS, None)
    if books is None:
        return
    for record in books.records.values():
        if not record.finished:
            _discard(record, books)


def session_finished(session: pytest.Session, exitstatus: int) -> None:
    """End: call from ``pytest_sessionfinish``, after syrupy's.

    A worker hands its books over.  Otherwise unused files are found, and removed with
    ``--snapshot-update``; without it they make the run fail, as syrupy's do.
    """
    config = session.config
    books = config.stash.get(BOOKS, None)
    if books is None:
        return
    books.exported += [record.export() for record in books.records.values()]
    if hasattr(config, "workeroutput"):
        config.workeroutput[WORKER_OUTPUT] = {
            "coverage": books.coverage.export(),
            "records": books.exported,
            "discarded": books.discarded,
            "redundant": books.redundant,
        }
        return
    if _settle(config, books, exitstatus) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def summary_lines(config: pytest.Config) -> list[str]:
    """Return what ``pytest_terminal_summary`` should print about snapshots; usually nothing."""
    books = config.stash.get(BOOKS, None)
    return books.lines if books is not None else []


def _settle(config: pytest.Config, books: Books, exitstatus: int) -> bool:
    """Remove or report what is unused; return whether the run should fail for it."""
    settings, option, coverage = books.settings, config.option, books.coverage
    update = settings.update and settings.may_write
    shown = settings.shown
    lost = books.receiver.problems if books.receiver is not None else []
    books.lines += lost
    for name, test in sorted(set(books.discarded)):
        books.lines.append(f"not written, because {test} did not pass: {name}")
    for name in sorted(set(books.redundant)):
        done = "dropped" if update else "--snapshot-update drops it"
        books.lines.append(f"the variant equals what it is a variant of ({done}): {name}")
    if option.disable_unused_snapshots or exitstatus not in (
        pytest.ExitCode.OK,
        pytest.ExitCode.TESTS_FAILED,
    ):
        return bool(lost)

    found = {
        path: f"not used by {test}, which passed"
        for path, test in unused_files(settings.root, books.exported).items()
    }
    finished = {record["nodeid"] for record in books.exported if record["finished"]}
    if coverage.collected - finished:
        coverage.narrow(NOT_RUN)
    if exitstatus != pytest.ExitCode.OK:
        coverage.narrow("a test failed")
    if not coverage.narrowed:
        orphans = find_orphans(
            settings.root,
            settings.rootdir,
            settings.tests_root,
            coverage,
            books.exported,
            settings.removable(settings.device_variants),
        )
        found |= dict.fromkeys(orphans.removable, "its test is gone")
        books.lines += [
            f"its test is gone, but it belongs to another variant, so it stays: {shown(path)}"
            for path in orphans.others
        ]
    elif update:
        books.lines.append(
            "snapshots of removed tests were not looked for, as the run was not complete: "
            + ", ".join(coverage.reasons())
        )
    removing = update and not option.no_cleanup
    for path, reason in sorted(found.items()):
        if removing:
            remove(path, settings.root)
        books.lines.append(f"{'removed' if removing else 'unused'} ({reason}): {shown(path)}")
    if found and not removing:
        books.lines.append("re-run with --snapshot-update to remove the unused snapshots")
    return bool(lost) or (bool(found) and not removing and not option.warn_unused_snapshots)


def _discard(record: TestRecord, books: Books) -> None:
    books.discarded += [(books.settings.shown(path), record.nodeid) for path in discard(record)]


def _record(item: pytest.Item, books: Books) -> TestRecord:
    record = item.stash.get(RECORD, None)
    if record is None:
        settings = books.settings
        record = TestRecord(
            nodeid=item.nodeid,
            place=place_of(item, settings),
            device_variants=settings.device_variants,
            settings=settings,
        )
        item.stash[RECORD] = books.records[item.nodeid] = record
    elif record.finished:  # a plugin runs the test once more
        record.start()
        books.discarded = [(path, test) for path, test in books.discarded if test != item.nodeid]
    return record


def _paths_given(config: pytest.Config) -> bool:
    """Say whether the command line, or where it was typed, may leave tests out."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return False
    given = {
        (config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args
    }
    if any("::" in arg for arg in config.args):
        return True
    expected = config.getini("testpaths") or ["."]
    wanted = {(config.rootpath / path).resolve() for path in expected}
    return not all(any(path.is_relative_to(g) for g in given) for path in wanted)
