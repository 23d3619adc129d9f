"""Two folders of snapshots in, what changed over the whole suite out: by kind, with its tests.

Files are paired by their path; what changed in them is put together by :mod:`.grouping`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.review.grouping import Group, group_changes
from pytest_fxregion.snapshots.changes import Change
from pytest_fxregion.snapshots.diff import compare_documents
from pytest_fxregion.snapshots.document import Document, read_document
from pytest_fxregion.snapshots.names import SUFFIX
from pytest_fxregion.snapshots.wording import summary_lines


@dataclass(frozen=True)
class Folder:
    """A folder of snapshots: documents by test (path without suffix), and what says why not."""

    path: Path
    documents: Mapping[str, Document]
    unreadable: Mapping[str, str]

    @property
    def provenances(self) -> tuple[str, ...]:
        """The first lines' texts, most frequent first: "torch 2.13.0 | cpu"."""
        counted = Counter(document.provenance for document in self.documents.values())
        return tuple(text for text, _ in sorted(counted.items(), key=lambda p: (-p[1], p[0])))


@dataclass(frozen=True)
class ChangedTest:
    """Everything that changed in one test."""

    test: str
    summary: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class FolderComparison:
    """What changed from folder ``a`` to folder ``b``.

    ``changed`` holds neither equal tests nor those of ``renumbered``, in which nothing but the
    numbers in names differs.
    """

    a: Folder
    b: Folder
    equal: tuple[str, ...]
    renumbered: tuple[str, ...]
    changed: tuple[ChangedTest, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    groups: tuple[Group, ...]


def read_folder(path: Path) -> Folder:
    """Read every snapshot below ``path``.

    Raises:
        SnapshotError: there is no such folder, or no snapshot in it.

    """
    documents: dict[str, Document] = {}
    unreadable: dict[str, str] = {}
    for current, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            if not name.endswith(SUFFIX) or name.startswith("."):
                continue
            file = Path(current, name)
            test = file.relative_to(path).as_posix().removesuffix(SUFFIX)
            try:
                documents[test] = read_document(file, source=str(file))
            except SnapshotError as error:
                unreadable[test] = str(error)
    if not documents and not unreadable:
        raise SnapshotError(f"{path}: no snapshots (*{SUFFIX}) below this folder")
    return Folder(path, documents, unreadable)


def compare_folders(a: Folder, b: Folder) -> FolderComparison:
    """Compare two folders, test by test; damaged files take no part, and are listed by both."""
    equal: list[str] = []
    renumbered: list[str] = []
    changed: list[ChangedTest] = []
    for test in sorted(a.documents.keys() & b.documents.keys()):
        old, new = a.documents[test], b.documents[test]
        if old.sections == new.sections:
            equal.append(test)
            continue
        changes = tuple(compare_documents(old, new))
        if changes and all(change.kind == "renumbered" for change in changes):
            renumbered.append(test)
        else:
            changed.append(ChangedTest(test, tuple(summary_lines(changes)), changes))
    known = a.documents.keys() | a.unreadable.keys(), b.documents.keys() | b.unreadable.keys()
    return FolderComparison(
        a,
        b,
        tuple(equal),
        tuple(renumbered),
        tuple(changed),
        tuple(sorted(a.documents.keys() - known[1])),
        tuple(sorted(b.documents.keys() - known[0])),
        tuple(group_changes((each.test, each.changes) for each in changed)),
    )
