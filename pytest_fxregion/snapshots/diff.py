"""What changed between two snapshot documents: first in words, then as a line diff."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_fxregion.snapshots.document import Document, write_document
from pytest_fxregion.snapshots.lines import unified


@dataclass(frozen=True)
class Difference:
    """How two documents differ: ``summary`` in words, ``lines`` as a unified diff."""

    summary: tuple[str, ...]
    lines: tuple[str, ...]

    def capped(self, limit: int, whole: str | None = None) -> list[str]:
        """Return the line diff, at most ``limit`` lines of it; what is left out is said.

        Args:
            limit: the number of lines.
            whole: where all of it can be read.

        """
        if len(self.lines) <= limit:
            return list(self.lines)
        left = len(self.lines) - limit
        where = f"; all of them in {whole}" if whole else ""
        return [*self.lines[:limit], f"... {left} more lines of this diff are left out{where}"]


def describe(old: Document, new: Document) -> Difference:
    """Compare two documents, first lines excepted."""
    old_lines = write_document(Document("", old.sections)).split("\n")
    new_lines = write_document(Document("", new.sections)).split("\n")
    return Difference((), tuple(unified(old_lines, new_lines)))
