"""``fxregion.json``: what a run found, for programs; the schema is in ``docs/fxregion-json.md``.

Comes in: a :class:`MachineReport`, or the text of one.  Goes out: the other.  Reading it needs
neither pytest nor torch, so that what CI left behind can be looked at anywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots.document import Document, write_document
from pytest_fxregion.snapshots.names import SUFFIX

DEFAULT_FOLDER = "fxregion-artifacts"
FILE = "fxregion.json"
FORMAT = "fxregion"
VERSION = 1

KINDS = ("new", "changed")
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


@dataclass(frozen=True)
class Candidate:
    """A new value that a failing test left behind.

    Attributes:
        snapshot: the file that it would become, from pytest's root folder.
        candidate: the file that holds it, from the artifacts folder.
        compared_with: the file that it was compared with (the base, for a new variant), from
            pytest's root folder; ``None`` if there was none.
        compared_sha256: :func:`fingerprint` of what that file held.
        variant: of ``snapshot``; ``None`` for the base.
        kind: ``new`` if there was nothing to compare with, else ``changed``.
        summary: what changed, in words.

    """

    snapshot: str
    candidate: str
    compared_with: str | None
    compared_sha256: str | None
    variant: str | None
    kind: str
    summary: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """Why a test did not pass.

    Attributes:
        file: the test's own code that failed, from pytest's root folder.
        line: its line; 1 is the first.
        text: what is wrong, in words: the failure's text up to its first empty line.
        command: what accepts or reproduces it; ``None`` if the failure names none.

    """

    file: str
    line: int
    text: tuple[str, ...]
    command: str | None = None


@dataclass(frozen=True)
class TestEntry:
    """What became of one test.

    ``earlier`` marks a test whose candidates an earlier run left, and that this one did not settle;
    outcome and figures are the earlier run's too.
    """

    __test__ = False  # pytest must not take this class for a test's

    nodeid: str
    outcome: str
    earlier: bool = False
    figures: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class MachineReport:
    """A run: its torch, its device, its tests by node id."""

    torch: str
    device: str
    tests: tuple[TestEntry, ...] = field(default=())


def fingerprint(document: Document) -> str:
    """Return the SHA-256 of a document's sections; its first line and line ends take no part."""
    text = write_document(Document("", document.sections))
    return hashlib.sha256(text.encode()).hexdigest()


def write_report(report: MachineReport) -> str:
    """Return the text of ``fxregion.json``: strict JSON, tests sorted by id."""
    tests = sorted(report.tests, key=lambda test: test.nodeid)
    value = {
        "format": FORMAT,
        "version": VERSION,
        "torch": report.torch,
        "device": report.device,
        "tests": [asdict(test) for test in tests],
    }
    text = json.dumps(_finite(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes its escape


def parse_report(text: str, *, source: str) -> MachineReport:
    """Read the text of ``fxregion.json``; keys that are not known are left out.

    Raises:
        SnapshotError: it is something else, damaged, or of a newer version; names ``source``.

    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SnapshotError(f"{source}: not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise SnapshotError(f'{source}: not a report of pytest-fxregion ("format": "{FORMAT}")')
    version = value.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise SnapshotError(
            f"{source} has version {version!r}, this version of pytest-fxregion reads up to "
            f"{VERSION}: upgrade it"
        )
    try:
        tests = tuple(_test(entry) for entry in value["tests"])
        return MachineReport(_text(value, "torch"), _text(value, "device"), tests)
    except (KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{source}: damaged: {type(error).__name__} {error}") from None


def resolve_inside(root: Path, path: str) -> Path:
    """Return the file that a path in ``fxregion.json`` means, below ``root``.

    The file may come from anywhere (a fork's CI run), so a path is taken as a snapshot's or not at
    all, links in ``root`` included.

    Raises:
        SnapshotError: the path is absolute, has ``..``, leads out of ``root`` through a link, or is
            not that of a snapshot file.

    """
    parts = path.split("/")
    if re.search(r"[\x00-\x1f\\:]", path) or {"", ".", ".."} & set(parts):
        raise SnapshotError(f"{path!r} is not a plain path below {root}")
    if not path.endswith(SUFFIX):
        raise SnapshotError(f"{path!r} is not the name of a snapshot file (*{SUFFIX})")
    found = root.joinpath(*parts)
    if not Path(os.path.realpath(found)).is_relative_to(os.path.realpath(root)):
        raise SnapshotError(f"{path!r} leads out of {root} through a link")
    return found


def _finite(value: Any) -> Any:
    """Return ``value`` with numbers that JSON does not have as text: ``"nan"``, ``"inf"``."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _test(entry: Mapping[str, Any]) -> TestEntry:
    return TestEntry(
        _text(entry, "nodeid"),
        _text(entry, "outcome"),
        bool(entry.get("earlier", False)),
        tuple(dict(figures) for figures in entry.get("figures", ())),
        tuple(_candidate(each) for each in entry.get("candidates", ())),
        None if entry.get("failure") is None else _failure(entry["failure"]),
    )


def _failure(entry: Mapping[str, Any]) -> Failure:
    line = entry["line"]
    if not isinstance(line, int):
        raise TypeError(f"line is {line!r}")
    return Failure(
        _text(entry, "file"),
        line,
        tuple(str(each) for each in entry["text"]),
        None if entry.get("command") is None else _text(entry, "command"),
    )


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    kind = _text(entry, "kind")
    if kind not in KINDS:
        raise TypeError(f"kind is {kind!r}")
    changed = kind == "changed"
    return Candidate(
        snapshot=_text(entry, "snapshot"),
        candidate=_text(entry, "candidate"),
        compared_with=_text(entry, "compared_with") if changed else None,
        compared_sha256=_text(entry, "compared_sha256") if changed else None,
        variant=None if entry.get("variant") is None else _text(entry, "variant"),
        kind=kind,
        summary=tuple(str(line) for line in entry["summary"]),
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}")
    return value
