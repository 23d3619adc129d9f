"""The stages of the suite's own snapshots, for what is to hold of every graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_fxregion.report.page.listing import Piece, Stage
from pytest_fxregion.snapshots.document import parse_document

SNAPSHOTS = Path(__file__).parents[4] / "snapshots"

_TITLE = re.compile(r"(?:graph (?P<graph>\d+): )?(?P<stage>\w+)(?:: (?P<part>.*))?")
_SAVED = re.compile(r'(?P<name>\S+): ".*"  (?P<size>.+ B)')


def stored_stages() -> Iterator[tuple[str, Stage]]:
    """Yield each stage of each base snapshot, with where it is from."""
    for path in sorted(SNAPSHOTS.rglob("*.fx.txt")):
        if "@" not in path.name:
            yield from stages_of(path)


def stages_of(path: Path) -> Iterator[tuple[str, Stage]]:
    """Yield the stages of a snapshot."""
    texts: dict[tuple[str, str], str] = {}
    pieces: dict[tuple[str, str], list[Piece]] = {}
    saved: dict[str, dict[str, str]] = {}
    for section in parse_document(path.read_text(encoding="utf-8"), source=str(path)).sections:
        match = _TITLE.fullmatch(section.title)
        assert match is not None, section.title
        graph, stage, part = match["graph"] or "0", match["stage"], match["part"]
        key = graph, stage
        if part is None:
            texts[key] = section.text
        elif part == "saved for backward":
            lines = map(_SAVED.fullmatch, section.text.split("\n"))
            saved[graph] = {line["name"]: line["size"] for line in lines if line is not None}
        elif part.startswith("inductor_region"):
            pieces.setdefault(key, []).extend(
                Piece(name, "forward", section.text) for name in part.split(", ")
            )
    for key, text in texts.items():
        graph, stage = key
        yield (
            f"{path.relative_to(SNAPSHOTS)}, graph {graph}, {stage}",
            Stage(stage, text, tuple(pieces.get(key, ())), saved.get(graph, {})),
        )
