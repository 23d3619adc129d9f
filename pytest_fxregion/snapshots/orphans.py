"""Snapshot files that no test of a complete run owns: their test was removed or renamed.

Only a run that collected everything, left nothing out and passed can tell a removed test from one
that it did not see.  Even then a file is kept when its test file is there but was not collected
(ignored, skipped as a whole), and when another test of the same function was skipped (its
parameters may depend on what the machine has).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.ledger import snapshot_files

DESELECTED = "tests were deselected"
DROPPED = "tests were dropped from the collection"
NOT_RUN = "not every test ran"
_CAME_OF_IT = frozenset({DESELECTED, DROPPED, NOT_RUN})


@dataclass
class Coverage:
    """What a run saw of the test suite, and why it may not be all of it.

    Attributes:
        narrowed: why the run is not complete; empty if nothing is known against it.
        modules: folders of the test files that were collected without error or skip.
        collected: ids of the tests that were collected.

    """

    narrowed: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    collected: set[str] = field(default_factory=set)

    def narrow(self, reason: str) -> None:
        """Note a reason why the run is not complete."""
        if reason not in self.narrowed:
            self.narrowed.append(reason)

    def reasons(self) -> list[str]:
        """Return why the run is not complete: what was asked for, else what came of it."""
        asked = [reason for reason in self.narrowed if reason not in _CAME_OF_IT]
        return asked or self.narrowed

    def export(self) -> dict[str, Any]:
        """Return this in builtins that cross to the xdist controller."""
        return {
            "narrowed": list(self.narrowed),
            "modules": sorted(self.modules),
            "collected": sorted(self.collected),
        }

    def merge(self, exported: Mapping[str, Any]) -> None:
        """Add what a worker saw."""
        for reason in exported["narrowed"]:
            self.narrow(reason)
        self.modules.update(exported["modules"])
        self.collected.update(exported["collected"])


@dataclass(frozen=True)
class Orphans:
    """Files without a test: of the variants that the run may remove, and of others."""

    removable: tuple[Path, ...]
    others: tuple[Path, ...]


def find_orphans(
    root: Path,
    rootdir: Path,
    tests_root: Path,
    coverage: Coverage,
    records: Iterable[Mapping[str, Any]],
    removable: Collection[str | None],
) -> Orphans:
    """Find the files below ``root`` that no test owns.  For complete runs only.

    Args:
        root: the snapshot folder.
        rootdir: pytest's root folder.
        tests_root: the folder that is left out of a snapshot's path.
        coverage: what the run collected.
        records: exported :class:`~.ledger.TestRecord` of every test that ran.
        removable: the variants that the run may remove files of.

    """
    owners: set[tuple[str, str]] = set()
    kept_functions: set[tuple[str, str]] = set()
    for record in records:
        owners.add((record["folder"], record["stem"]))
        if not record["passed"]:
            kept_functions.add((record["folder"], record["function"]))
    mine: list[Path] = []
    others: list[Path] = []
    for current, folders, _ in os.walk(root):
        folders.sort()
        folder = PurePosixPath(Path(current).relative_to(root).as_posix())
        if str(folder) not in coverage.modules and _module_exists((tests_root, rootdir), folder):
            continue
        for path, name in snapshot_files(Path(current)):
            function = name.test.partition("[")[0]
            if (str(folder), name.test) in owners or (str(folder), function) in kept_functions:
                continue
            (mine if name.variant in removable else others).append(path)
    return Orphans(tuple(mine), tuple(others))


def _module_exists(bases: Iterable[Path], folder: PurePosixPath) -> bool:
    """Say whether the test file whose snapshots are in ``folder`` is on disk."""
    for base in bases:
        at = base
        for part in folder.parts:
            at = at / part
        if at.with_name(at.name + ".py").is_file():
            return True
        # A name that was encoded cannot be read back if it was cut, so names are compared encoded.
        if any(
            names.encode(entry.stem, names.MAX_COMPONENT_BYTES) == folder.name
            for entry in (at.parent.glob("*.py") if at.parent.is_dir() else ())
        ):
            return True
    return False
