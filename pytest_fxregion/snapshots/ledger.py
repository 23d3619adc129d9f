"""What each test of this process did with its snapshots, and so what may be written and removed.

Two rules keep anything from being lost.  A new value is held back until its test has passed, all
phases of it, and only then written.  A file is unused only if the test that owns it passed in this
run without asking for it; a test that was skipped, deselected, failed, expected to fail, or died
with its worker says nothing about its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.document import parse_document
from pytest_fxregion.snapshots.files import prune, write_atomically
from pytest_fxregion.snapshots.settings import Place, Settings

if TYPE_CHECKING:
    from syrupy.assertion import AssertionResult


@dataclass(frozen=True)
class Placement:
    """The files that may hold one value, and the one that a new value goes to."""

    candidates: tuple[Path, ...]
    """Most specific first; the last one is the base."""
    target: Path

    def stored(self) -> Path | None:
        """Return the file that holds the value now."""
        return next((path for path in self.candidates if path.exists()), None)

    def fallback(self, path: Path) -> Path | None:
        """Return the file that would be read if ``path``, a variant's, did not exist.

        A file of one torch version stands in for nothing but itself: the next version would read
        another one.
        """
        if path not in self.candidates:
            return None
        for other in self.candidates[self.candidates.index(path) + 1 :]:
            if "torch" not in _variant(other) and other.exists():
                return other
        return None


@dataclass
class TestRecord:
    """One test of this process."""

    __test__ = False  # pytest must not take this class for a test's

    nodeid: str
    place: Place
    device_variants: tuple[str, ...]
    settings: Settings
    provenance: str = ""
    """For the first line of what is compared, where that brings none of its own."""
    used: set[str] = field(default_factory=set)
    """Stems of the files that the test asked for."""
    pending: dict[Path, tuple[Placement, str]] = field(default_factory=dict)
    """New values, held back until the test has passed."""
    matched: dict[Path, Placement] = field(default_factory=dict)
    """Files of variants that were read and were equal."""
    claims: dict[str, tuple[int | str, str]] = field(default_factory=dict)
    """What was compared under each name, to find a name that is used twice."""
    written: dict[Path, str | None] = field(default_factory=dict)
    """What was written once the test had passed; None for a file that was removed."""
    results: list[AssertionResult] = field(default_factory=list)
    """syrupy's own record of the comparisons, from which it counts."""
    sound: bool = True
    """No phase has failed, was skipped or expected to fail, yet."""
    finished: bool = False

    def start(self) -> None:
        """Forget an earlier attempt (plugins that rerun a test start it again)."""
        self.used.clear()
        self.pending.clear()
        self.matched.clear()
        self.claims.clear()
        self.written.clear()
        self.results.clear()
        self.sound, self.finished = True, False

    @property
    def passed(self) -> bool:
        """Whether every phase of the test passed."""
        return self.finished and self.sound

    def export(self) -> dict[str, Any]:
        """Return what the end of the run needs, in builtins that cross to the xdist controller."""
        return {
            "nodeid": self.nodeid,
            "folder": str(self.place.folder),
            "stem": self.place.stem,
            "function": self.place.function,
            "passed": self.passed,
            "finished": self.finished,
            "used": sorted(self.used),
            "removable": [
                variant or "" for variant in self.settings.removable(self.device_variants)
            ],
        }


def placement(record: TestRecord, index: int | str) -> Placement:
    """Decide which files one snapshot of a test is read from and written to.

    A new value goes to the variant that the user records, else to the variant that holds it now,
    else to the base; but on a device with variants of its own never to the base, which is CUDA's.
    """
    settings = record.settings
    folder = settings.root / record.place.folder
    stem = stem_of(record.place, index)
    variants = settings.variants(record.device_variants)
    candidates = tuple(folder / name for name in names.candidates(stem, variants))
    stored = next((path for path in candidates if path.exists()), None)
    if settings.record:
        target = candidates[0]
    elif stored is not None and stored != candidates[-1]:
        target = stored
    elif record.device_variants:
        target = folder / f"{stem}@{record.device_variants[-1]}{names.SUFFIX}"
    else:
        target = candidates[-1]
    return Placement(candidates, target)


def stem_of(place: Place, index: int | str) -> str:
    """Return the stem of the file for one of a test's snapshots."""
    extra = names.encode_extra(index)
    return f"{place.stem}-{extra}" if extra else place.stem


def flush(record: TestRecord, update: bool) -> list[Path]:
    """Write what a test that passed has held back; return the variants that equal their base.

    Those are removed if ``update``, else only reported.

    Raises:
        OSError: a file could not be written; the files before it were.

    """
    redundant: list[Path] = []
    for target, (where, text) in record.pending.items():
        fallback = where.fallback(target)
        if fallback is not None and same_sections(_read(fallback), text):
            if target.exists():
                redundant.append(target)
                target.unlink(missing_ok=True)
                record.written[target] = None
        else:
            write_atomically(target, text)
            record.written[target] = text
    for stored, where in record.matched.items():
        fallback = where.fallback(stored)
        if fallback is not None and same_sections(_read(fallback), _read(stored)):
            redundant.append(stored)
            if update:
                stored.unlink(missing_ok=True)
                record.written[stored] = None
    record.pending.clear()
    record.matched.clear()
    return redundant


def discard(record: TestRecord) -> list[Path]:
    """Drop what a test that did not pass has held back; return the files that stay as they were.

    syrupy counted these as written when they were compared, so its results are set right too.
    """
    dropped = sorted(record.pending)
    for result in record.results:
        if result.created or result.updated:
            result.created = result.updated = result.success = False
    record.pending.clear()
    record.matched.clear()
    for path in dropped:  # syrupy has made the folder
        prune(path.parent, record.settings.root)
    return dropped


def unused_files(root: Path, records: Iterable[Mapping[str, Any]]) -> dict[Path, str]:
    """Find the files whose test passed without asking for them, with the id of that test."""
    listings: dict[str, list[tuple[Path, names.FileName]]] = {}
    found: dict[Path, str] = {}
    for record in records:
        if not record["passed"]:
            continue
        folder = record["folder"]
        if folder not in listings:
            listings[folder] = list(snapshot_files(root / PurePosixPath(folder)))
        for path, name in listings[folder]:
            if (
                name.test == record["stem"]
                and name.stem not in record["used"]
                and (name.variant or "") in record["removable"]
            ):
                found[path] = record["nodeid"]
    return found


def snapshot_files(folder: Path) -> list[tuple[Path, names.FileName]]:
    """Return the snapshot files right in ``folder``, sorted, with their names taken apart."""
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    parsed = ((folder / entry, names.parse_file_name(entry)) for entry in entries)
    return [(path, name) for path, name in parsed if name is not None]


def same_sections(one: str, other: str) -> bool:
    """Say whether two snapshot files hold the same, whatever their first lines say."""
    try:
        left = parse_document(one, source="")
        right = parse_document(other, source="")
    except SnapshotError:
        return False
    return left.sections == right.sections


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _variant(path: Path) -> str:
    name = names.parse_file_name(path.name)
    return (name.variant or "") if name else ""
