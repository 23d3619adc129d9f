"""Comparing a value with its snapshot: a document in, a :class:`Comparison` with its text out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.exceptions import TaintedSnapshotError

from pytest_fxregion.commands import test_command
from pytest_fxregion.errors import CheckError, SnapshotError
from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.diff import Difference, describe
from pytest_fxregion.snapshots.document import (
    Document,
    parse_document,
    read_document,
    write_document,
)
from pytest_fxregion.snapshots.files import write_atomically
from pytest_fxregion.snapshots.ledger import Placement, placement, stem_of
from pytest_fxregion.snapshots.settings import Settings
from pytest_fxregion.snapshots.storage import (
    RECORD,
    SETTINGS,
    document_of,
)

TEXT_DIFF_LINES = 80

Outcome = Literal["matched", "created", "updated", "missing", "different", "damaged", "reused"]


@dataclass(frozen=True)
class Comparison:
    """What comparing a document with its snapshot gave.

    Attributes:
        outcome: ``created`` and ``updated`` are written once the test has passed; ``reused`` is a
            second value under a name that the test has used already.
        path: the file that holds the value, or would.
        text: for a person; empty if nothing is wrong.
        stored: what the file held, where it could be read.
        new: what was compared with it.

    """

    outcome: Outcome
    path: Path
    text: str
    stored: Document | None
    new: Document

    def __bool__(self) -> bool:
        return self.outcome in {"matched", "created", "updated"}


_FAILED = pytest.StashKey[Comparison]()


def failed_comparison(item: pytest.Item, call: pytest.CallInfo[None]) -> Comparison | None:
    """Return the comparison that a test failed by; None if it failed by something else, or not.

    A comparison that was asked to differ, or whose failure the test caught, is not what it failed
    by.
    """
    comparison = item.stash.get(_FAILED, None)
    if comparison is None or call.excinfo is None:
        return None
    return comparison if comparison.text in str(call.excinfo.value) else None


class RegionSnapshot(SnapshotAssertion):
    """syrupy's assertion, whose comparison fails by itself with the whole text.

    pytest cuts the explanation of a plain ``assert`` to eight lines, which would leave out what
    changed and the command that accepts it.
    """

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        comparison = self._compare(other)
        if not comparison:
            raise CheckError(comparison.text)
        return True

    def __ne__(self, other: object) -> bool:
        return not self._compare(other, expected=False)

    def _compare(self, value: object, *, expected: bool = True) -> Comparison:
        record = self.test_location.item.stash[RECORD]
        return compare(self, document_of(value, record.provenance), expected=expected)


def compare(
    snapshot: SnapshotAssertion,
    document: Document,
    *,
    index: str | None = None,
    expected: bool = True,
) -> Comparison:
    """Compare ``document`` with what ``snapshot``, from the fixture, has stored.

    Args:
        snapshot: the value of the ``fxregion_snapshot`` fixture.
        document: the new value.
        index: the name of the snapshot, for a test that has several.
        expected: whether they should be equal; if not, a difference leaves nothing in the
            artifacts folder.

    """
    item = snapshot.test_location.item
    settings, record = item.config.stash[SETTINGS], item.stash[RECORD]
    assertion = snapshot(name=index) if index else snapshot
    position = assertion.index
    where = placement(record, position)
    path = where.stored() or where.target
    SnapshotAssertion.__eq__(assertion, document)
    result = assertion.executions[assertion.num_executions - 1]
    record.results.append(result)

    def failed(outcome: Outcome, *lines: str, stored: Document | None = None) -> Comparison:
        text = "\n".join([*lines, *_how_to_accept(item, settings)])
        item.stash[_FAILED] = Comparison(outcome, path, text, stored, document)
        return item.stash[_FAILED]

    key = names.clash_key(record.place.folder, stem_of(record.place, position))
    claim = (position, write_document(document))
    earlier = record.claims.setdefault(key, claim)
    if earlier != claim:
        record.sound = False
        text = (
            f"{item.nodeid} compares two different values with one snapshot, "
            f"{_called(position)}"
            + (f" and {_called(earlier[0])}" if earlier[0] != position else "")
            + ": give each its own name"
        )
        return Comparison("reused", path, text, None, document)

    shown = settings.shown(path)
    if result.success:
        outcome: Outcome = (
            "created" if result.created else "updated" if result.updated else "matched"
        )
        if outcome == "matched":
            record.matched[path] = where
        return Comparison(outcome, path, "", None, document)
    if isinstance(result.exception, OSError):
        return failed("damaged", f"cannot read or write {shown}: {result.exception}")
    if isinstance(result.exception, TaintedSnapshotError):
        return failed("damaged", str(result.exception.__cause__ or _damage(path, shown)))
    if result.exception is not None:
        raise result.exception
    if not isinstance(result.recalled_data, str):
        lines = [f"{item.nodeid} has no snapshot yet: {shown} does not exist"]
        if (folder := settings.elsewhere()) is not None:
            lines.append(
                f"snapshots are looked for in pytest's root folder, {settings.rootdir} now; there "
                f"are some in {folder}: start pytest with --rootdir={folder}, "
                "or put an ini file there"
            )
        return failed("missing", *lines)
    stored = parse_document(result.recalled_data, source=shown)
    report = describe(stored, document)
    lines = [f"{shown} differs from what was compiled on {settings.device}:", *report.summary, ""]
    whole = None
    not_kept: list[str] = []
    if expected:
        try:
            whole = _keep(settings, where, document, report)
        except OSError as error:
            not_kept = ["", f"(could not keep the new value in the artifacts folder: {error})"]
    lines += [*report.capped(TEXT_DIFF_LINES, whole), *not_kept]
    return failed("different", *lines, stored=stored)


def _called(position: int | str) -> str:
    if isinstance(position, str):
        return f"named {position!r}"
    return f"number {position}" if position else "the one without a name"


def _damage(path: Path, shown: str) -> str:
    try:
        read_document(path, source=shown)
    except SnapshotError as error:
        return str(error)
    return f"{shown}: the snapshot could not be read"  # mended by another run since


def _keep(
    settings: Settings, where: Placement, document: Document, report: Difference
) -> str | None:
    """Put the new value and the whole difference in the artifacts folder; return where.

    They are named after the file that the value would go to, as candidates are: on a device with
    variants of its own that is not the one that was read.

    Raises:
        OSError: they cannot be written.

    """
    if settings.artifacts is None:
        return None
    kept = settings.artifacts / "snapshots" / where.target.relative_to(settings.root)
    write_atomically(kept, write_document(document))
    whole = kept.with_name(kept.name.removesuffix(names.SUFFIX) + ".diff")
    write_atomically(whole, "\n".join([*report.summary, "", *report.lines]) + "\n")
    return settings.shown(whole)


def _how_to_accept(item: pytest.Item, settings: Settings) -> list[str]:
    """Return the last lines of a failure: why nothing was written, and the command that would."""
    lines = ["", "To accept what was compiled now, run:"]
    option = item.config.option
    asked = option.update_snapshots or option.update_new_snapshots_only
    if asked and not settings.may_write:
        lines = [
            "",
            "Under CI nothing is written unless --fxregion-allow-ci-update is given.",
            "To accept what was compiled now, run where you work:",
        ]
    return [*lines, test_command(item, [*settings.command, "--snapshot-update"])]
