"""Candidates against the tree: an artifacts folder in, what may be accepted out.

The folder is only read, so that it may be CI's, unpacked anywhere.  A candidate counts as settled
when the snapshot holds what it holds; nothing is noted down beside that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.report.machine import (
    FILE,
    Candidate,
    fingerprint,
    parse_report,
    resolve_inside,
)
from pytest_fxregion.snapshots.diff import Difference, describe
from pytest_fxregion.snapshots.document import Document, read_document, write_document
from pytest_fxregion.snapshots.files import write_atomically

State = Literal["open", "settled", "outdated", "refused"]


@dataclass(frozen=True)
class Offer:
    """One candidate of one test, in one artifacts folder."""

    nodeid: str
    folder: Path
    candidate: Candidate


@dataclass(frozen=True)
class Standing:
    """How a candidate stands against the tree.

    Attributes:
        state: ``open`` can be accepted; ``settled`` is what the snapshot holds already;
            ``outdated`` would overwrite a snapshot that is not the one that it was compared with;
            ``refused`` cannot be accepted at all.
        reason: why it is outdated or refused.
        new: what the candidate holds.
        difference: from what the tree holds now; ``None`` where that is nothing.

    """

    state: State
    reason: str = ""
    new: Document | None = None
    difference: Difference | None = None


def offers(folder: Path) -> tuple[Offer, ...]:
    """Return the candidates that ``fxregion.json`` in an artifacts folder lists.

    Raises:
        SnapshotError: there is no such file, or it cannot be read.

    """
    file = folder / FILE
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise SnapshotError(
            f"cannot read {file}: {what}; name the artifacts folder of a run (fxregion-artifacts)"
        ) from None
    tests = parse_report(text, source=str(file)).tests
    return tuple(Offer(test.nodeid, folder, each) for test in tests for each in test.candidates)


def check_root(root: Path, found: tuple[Offer, ...]) -> None:
    """Raise a SnapshotError if ``root`` is wrong: it lacks even the folder of what was compared."""
    compared = [
        each.candidate.compared_with for each in found if each.candidate.compared_with is not None
    ]
    if compared and not any((root / path.partition("/")[0]).exists() for path in compared):
        raise SnapshotError(
            f"{root} holds none of the snapshots that were compared ({compared[0]}, …): "
            "give --root with the folder that is pytest's rootdir"
        )


def examine(offer: Offer, root: Path) -> Standing:
    """Hold a candidate against what the tree below ``root`` holds now."""
    candidate = offer.candidate
    try:
        target = resolve_inside(root, candidate.snapshot)
        new = _read(resolve_inside(offer.folder, candidate.candidate), "the candidate")
        if new is None:
            raise SnapshotError(f"the candidate {candidate.candidate} is not in {offer.folder}")
    except SnapshotError as error:
        return Standing("refused", str(error))
    base = candidate.compared_with
    try:
        held = _read(target, candidate.snapshot)
        source = target if base is None else resolve_inside(root, base)
        compared = held if source == target else _read(source, str(base))
    except SnapshotError as error:
        return Standing("outdated", str(error), new)
    if held is not None and held.sections == new.sections:
        return Standing("settled", "", new)
    against = held if held is not None else compared
    difference = None if against is None else describe(against, new)
    if compared is None and base is not None:
        reason = f"{base} is gone since"
    elif (None if compared is None else fingerprint(compared)) != candidate.compared_sha256:
        reason = f"{base or candidate.snapshot} has changed since"
    elif source != target and held is not None:
        reason = f"{candidate.snapshot} is there now, and was not then"
    else:
        return Standing("open", "", new, difference)
    return Standing("outdated", reason, new, difference)


def accept(offer: Offer, root: Path, *, force: bool = False) -> Standing:
    """Write a candidate over its snapshot, as a whole or not at all.

    The tree is looked at again first.  Returns how the candidate stands afterwards: ``settled`` if
    it was written.

    Raises:
        SnapshotError: the file cannot be written.

    """
    standing = examine(offer, root)
    if standing.new is None or not (
        standing.state == "open" or (force and standing.state == "outdated")
    ):
        return standing
    target = resolve_inside(root, offer.candidate.snapshot)
    try:
        write_atomically(target, write_document(standing.new))
    except OSError as error:
        raise SnapshotError(f"cannot write {target}: {error.strerror}") from None
    return Standing("settled", "", standing.new)


def _read(path: Path, shown: str) -> Document | None:
    """Return the document in a file, ``None`` if there is no file.

    Raises:
        SnapshotError: the file cannot be read as a snapshot.

    """
    return read_document(path, source=shown) if os.path.lexists(path) else None
