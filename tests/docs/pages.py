"""A page of documentation as steps to take: files to write, commands to run, what they print.

In Markdown, in order of appearance:

- a block with ``title="PATH"`` is a file;
- a ``python`` block without a title is a program;
- an ``sh`` block is commands, each of which succeeds unless ``<!-- exits N -->`` stands above;
- a ``text`` block after either is what it prints: these lines, or parts of lines, in this order;
  others may stand between them, ``…`` in a line stands for anything, and times may be others;
- a ``json`` or ``yaml`` block without a title can be parsed.

``<!-- not run: REASON -->`` above a block leaves it out; ``<!-- shown: REASON -->`` above a
``text`` block says where it comes from, if not from the command above it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"<!-- (exits|not run:|shown:) ?(.*?) -->", re.DOTALL)
_BLOCK = re.compile(
    r"(?:<!-- (?P<comment>(?:(?!-->).)*?) -->\n+)?"
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_TITLE = re.compile(r'title="([^"]*)"')


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, title and text, the line it begins in, and what is said of it.

    ``exits`` is the exit status that its last command has; ``reason`` why it is not run.
    """

    language: str
    title: str | None
    text: str
    line: int
    exits: int = 0
    reason: str | None = None


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found = []
    for match in _BLOCK.finditer(page):
        info = match["info"]
        said = _COMMENT.fullmatch(f"<!-- {match['comment']} -->") if match["comment"] else None
        title = _TITLE.search(info)
        lines = match["body"].splitlines(keepends=True)
        found.append(
            Block(
                language=info.split(" ")[0],
                title=title[1] if title else None,
                text="".join(line.removeprefix(match["indent"]) for line in lines),
                line=page.count("\n", 0, match.start("info")) + 1,
                exits=int(said[2]) if said and said[1] == "exits" else 0,
                reason=" ".join(said[2].split()) if said and said[1] != "exits" else None,
            )
        )
    return found


def commands(block: Block) -> list[str]:
    """Return the commands of an ``sh`` block, lines that continue joined, comments left out."""
    joined = block.text.replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def missing(shown: str, printed: str) -> str | None:
    """Return the first line of ``shown`` that ``printed`` lacks, None if all are there in order."""
    rest = iter([_plain(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() in ("", "…", "...", "[...]"):
            continue
        pattern = ".*".join(re.escape(part) for part in _plain(line).split("…"))
        if not any(re.search(rf"(?<!\w){pattern}(?!\w)", candidate) for candidate in rest):
            return line
    return None


def _plain(line: str) -> str:
    """A line without what no two runs have in common: times, and rules that fill it."""
    line = re.sub(r"\b\d+\.\d+ ?s\b", "T s", line)
    return re.sub(r"[ =_-]{2,}", " ", line).strip()
