"""Two documents in, what the page shows of a snapshot that no longer holds: words, and two sides.

The text is laid out here: which line stands beside which.  Lines that define the same value are
put beside each other, the others in the order in which they come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, write_document
from pytest_fxregion.snapshots.lines import changed_blocks

_DEFINES = re.compile(r"\s*(?P<name>\w+)(?:: \"[^\"]*\")? = ")

Pair = tuple[str | None, str | None]


def difference(old: Document | None, new: Document) -> dict[str, Any]:
    """Return what changed in words, by node, and as lines on two sides.

    ``lines`` are the new text's; each of ``blocks`` has the place in it (``at``) and ``count`` of
    the lines that changed, the old text's line number there (``old``), and ``pairs`` of an old
    line and a new one, either of which may be missing.  Without an old document the whole text is
    new, and nothing is said of single nodes.
    """
    if old is None:
        return {"summary": [], "changes": [], "lines": _lines(new), "blocks": []}
    found = describe(old, new)
    old_lines, new_lines = _lines(old), _lines(new)
    return {
        "summary": list(found.summary),
        "changes": [
            {
                "stage": change.stage,
                "subject": change.subject,
                "kind": change.kind,
                "before": change.before,
                "after": change.after,
            }
            for change in found.changes
            if change.kind != "removed"  # what is gone has no node to be marked
        ],
        "lines": new_lines,
        "blocks": [
            {
                "at": j1,
                "count": j2 - j1,
                "old": i1,
                "pairs": list(beside(old_lines[i1:i2], new_lines[j1:j2])),
            }
            for i1, i2, j1, j2 in changed_blocks(old_lines, new_lines)
        ],
    }


def beside(old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    """Yield pairs of lines of a changed block; all lines of both are in them, in order."""
    i = j = 0
    ends = (len(old), len(old), len(new), len(new))
    for i1, i2, j1, j2 in (*changed_blocks(_keys(old), _keys(new)), ends):
        yield from zip(old[i:i1], new[j:j1], strict=True)
        for at in range(max(i2 - i1, j2 - j1)):
            yield (
                old[i1 + at] if at < i2 - i1 else None,
                new[j1 + at] if at < j2 - j1 else None,
            )
        i, j = i2, j2


def _keys(lines: Sequence[str]) -> list[str]:
    """Return what a line defines, or the line itself: lines of one key belong beside each other."""
    return [
        f"= {match['name']}" if (match := _DEFINES.match(line)) is not None else line
        for line in lines
    ]


def _lines(document: Document) -> list[str]:
    return write_document(Document("", document.sections)).rstrip("\n").split("\n")
