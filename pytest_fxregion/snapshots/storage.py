"""The syrupy extension: one text file a value, under the project's snapshot folder.

syrupy makes the extension without arguments, by name, also on the xdist controller; so what a test
has is found through its item's stash, and the file's path leads back to it.  Nothing here writes or
removes: new values go to the test's :class:`~.ledger.TestRecord`, and syrupy is told of no file at
all to clean up, because it decides from the command line's text which tests ran and so deletes
live snapshots (with ``-x``, node ids, a crashed worker, ...).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import pytest
from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.exceptions import TaintedSnapshotError
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import PropertyFilter, PropertyMatcher, SerializedData, SnapshotIndex

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots.document import Document, parse_document, write_document
from pytest_fxregion.snapshots.ledger import (
    Placement,
    TestRecord,
    placement,
    same_sections,
    stem_of,
)
from pytest_fxregion.snapshots.names import SUFFIX
from pytest_fxregion.snapshots.settings import Settings, place_of

SETTINGS = pytest.StashKey[Settings]()
RECORD = pytest.StashKey[TestRecord]()


@runtime_checkable
class HasDocument(Protocol):
    """A value that can be compared with a snapshot: a run, or one of its graphs."""

    def snapshot_document(self) -> Document:
        """Return the value as a snapshot holds it."""


def document_of(value: object, provenance: str) -> Document:
    """Return the document that ``value`` is, or has; with ``provenance`` if it brings none.

    Raises:
        SnapshotError: it is neither a :class:`Document` nor has a ``snapshot_document()``.

    """
    if isinstance(value, HasDocument):
        value = value.snapshot_document()
    if isinstance(value, Document):
        return value if value.provenance else replace(value, provenance=provenance)
    raise SnapshotError(
        f"a value of type {type(value).__name__} cannot be compared with a snapshot: it is no "
        "Document and has no snapshot_document()"
    )


class RegionSnapshotExtension(SingleFileSnapshotExtension):
    """Reads and compares snapshot files; leaves writing and removing to the ledger."""

    _write_mode = WriteMode.TEXT
    file_extension = SUFFIX.removeprefix(".")

    placements: ClassVar[dict[str, tuple[TestRecord, Placement]]] = {}
    """By path, the test that asked for it: syrupy reads and writes by nothing but the path."""

    def serialize(
        self,
        data: Any,
        *,
        exclude: PropertyFilter | None = None,
        include: PropertyFilter | None = None,
        matcher: PropertyMatcher | None = None,
    ) -> SerializedData:
        """Return the text of ``data``, a document."""
        return write_document(data)

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Compare sections: first lines, which say the provenance, take no part."""
        return same_sections(serialized_data, snapshot_data)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of the test's snapshots."""
        settings = test_location.item.config.stash[SETTINGS]
        return str(settings.root / place_of(test_location.item, settings).folder)

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder that syrupy asks about; nothing is discovered in it.

        It asks for every collected test, also those that use no snapshot.
        """
        return str(test_location.item.config.stash[SETTINGS].root)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """Return a name for syrupy's messages; files are named by :meth:`get_location`."""
        return f"{test_location.snapshot_name}-{index}" if index else test_location.snapshot_name

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Return the file that a new value goes to, and note that the test asked for it."""
        record = _record(test_location)
        where = placement(record, index)
        record.used.add(stem_of(record.place, index))
        cls.placements[str(where.target)] = (record, where)
        return str(where.target)

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        """Say whether the file is the test's."""
        owner = cls.placements.get(snapshot_location)
        return owner is not None and owner[0].nodeid == test_location.nodeid

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        """Return nothing: what is unused is decided by the ledger, at the end of the run."""
        return SnapshotCollections()

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> Any:
        """Return the text of the most specific file that is there, ``None`` if none is.

        Raises:
            TaintedSnapshotError: the file cannot be read as a snapshot.

        """
        _, where = self.placements[snapshot_location]
        stored = where.stored()
        if stored is None:
            return None
        try:
            text = stored.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise TaintedSnapshotError(stored.read_text("utf-8", errors="replace")) from error
        except FileNotFoundError:  # removed by another run since
            return None
        try:
            parse_document(text, source=str(stored))
        except SnapshotError as error:
            raise TaintedSnapshotError(text) from error
        return text

    @classmethod
    def write_snapshot_collection(
        cls,
        *,
        snapshot_collection: SnapshotCollection,
        name_order: dict[str, int] | None = None,
    ) -> None:
        """Hold the new value back until its test has passed."""
        record, where = cls.placements[snapshot_collection.location]
        data = next(iter(snapshot_collection)).data
        assert isinstance(data, str)
        record.pending[Path(snapshot_collection.location)] = (where, data)

    @classmethod
    def forget(cls, record: TestRecord) -> None:
        """Let go of a test that has ended."""
        for location in [key for key, (owner, _) in cls.placements.items() if owner is record]:
            del cls.placements[location]

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """Refuse: syrupy is told of no file, so it has none to remove."""
        raise SnapshotError(f"{snapshot_location}: removing snapshots is not left to syrupy")


def _record(test_location: PyTestLocation) -> TestRecord:
    record = test_location.item.stash.get(RECORD, None)
    if record is None:
        raise SnapshotError(
            f"{test_location.nodeid}: use the fxregion_snapshot fixture; "
            "the snapshot extension works for no other"
        )
    return record
