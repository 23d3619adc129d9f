"""The snapshot document: titled sections of text, written to one file and read back.

The first line says the format's version and the provenance (which torch, which device); it takes
no part in any comparison.  The rule for versions: a reader reads every version up to its own, and
refuses newer ones by name.  Comparison is of sections, not of bytes, so that a file in an older
form stays valid until its contents change, and only then is written in the newest form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_fxregion.errors import SnapshotError

FORMAT_VERSION = 1

_HEADER = re.compile(r"# fxregion snapshot (?P<version>\d+)(?: \| (?P<provenance>.*))?")
_TITLE = re.compile(r"# ==== (?P<title>.+) ====")
_CONFLICT = re.compile(r"(?:<{7}|\|{7}|>{7})(?: .*)?|={7}")
# Lines of a section's own text that would read as structure get one backslash in front.
_STRUCTURAL = re.compile(r"\\*(?:# ==== .+ ====|(?:<{7}|\|{7}|>{7})(?: .*)?|={7})")
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A titled text.

    The text is made canonical when the section is made, so that what is written and read back is
    equal: LF line ends, no space at the end of a line, no empty line at either end, and lone
    surrogates (which UTF-8 cannot hold) as escapes.
    """

    title: str
    text: str

    def __post_init__(self) -> None:
        title = " ".join(_encodable(self.title).split())
        if not title:
            raise SnapshotError("a snapshot's section needs a title")
        text = _encodable(self.text).replace("\r\n", "\n").replace("\r", "\n")
        text = _TRAILING_SPACE.sub("", text).strip("\n")
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "text", text)


@dataclass(frozen=True)
class Document:
    """What one snapshot file holds.

    ``provenance`` is one line about where the sections come from ("torch 2.13.0 | cpu").
    """

    provenance: str
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for section in self.sections:
            if section.title in seen:
                raise SnapshotError(f"two sections of a snapshot have the title {section.title!r}")
            seen.add(section.title)
        object.__setattr__(self, "provenance", " ".join(_encodable(self.provenance).split()))

    def section(self, title: str) -> Section | None:
        """Return the section with this title."""
        return next((section for section in self.sections if section.title == title), None)


def write_document(document: Document) -> str:
    """Return the text of a snapshot file; :func:`parse_document` gives an equal document back."""
    header = f"# fxregion snapshot {FORMAT_VERSION}"
    if document.provenance:
        header += f" | {document.provenance}"
    parts = [header]
    for section in document.sections:
        lines = section.text.split("\n")
        body = "\n".join(f"\\{line}" if _STRUCTURAL.fullmatch(line) else line for line in lines)
        parts.append(f"\n# ==== {section.title} ====" + (f"\n{body}" if body else ""))
    return "\n".join(parts) + "\n"


def parse_document(text: str, *, source: str) -> Document:
    """Read the text of a snapshot file.

    CRLF line ends (a checkout without ``.gitattributes``) and a byte order mark are read as if
    they were not there.

    Raises:
        SnapshotError: the text is not a snapshot, is of a newer format, holds merge-conflict
            markers or was cut off; the message names ``source`` and the line.

    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise SnapshotError(f"{source}: the snapshot file is empty")
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if _CONFLICT.fullmatch(line):
            raise SnapshotError(
                f"{source}:{number}: merge-conflict marker {line!r} in a snapshot; "
                "resolve the conflict, or record the snapshot anew"
            )
    header = _HEADER.fullmatch(lines[0])
    if header is None:
        raise SnapshotError(
            f"{source}:1: not a snapshot: the first line should be "
            f"'# fxregion snapshot {FORMAT_VERSION} | ...', but is {lines[0][:80]!r}"
        )
    if int(header["version"]) > FORMAT_VERSION:
        raise SnapshotError(
            f"{source}:1: the snapshot has format {header['version']}, this version of "
            f"pytest-fxregion reads up to {FORMAT_VERSION}: upgrade it"
        )
    if lines[-1]:
        raise SnapshotError(
            f"{source}:{len(lines)}: the snapshot file ends in the middle of a line; it was cut off"
        )

    sections: dict[str, list[str]] = {}
    body: list[str] | None = None
    for number, line in enumerate(lines[1:-1], 2):
        if title := _TITLE.fullmatch(line):
            if title["title"] in sections:
                raise SnapshotError(
                    f"{source}:{number}: a second section with the title {title['title']!r}"
                )
            body = sections[title["title"]] = []
        elif body is not None:
            body.append(line[1:] if line[:1] == "\\" and _STRUCTURAL.fullmatch(line) else line)
        elif line.strip():
            raise SnapshotError(f"{source}:{number}: text before the first section's title")
    return Document(
        header["provenance"] or "",
        tuple(Section(title, "\n".join(body)) for title, body in sections.items()),
    )


def read_document(file: Path, *, source: str) -> Document:
    """Read a snapshot file; ``source`` names it in errors.

    Raises:
        SnapshotError: it cannot be read, or is not a whole snapshot.

    """
    try:
        return parse_document(file.read_bytes().decode("utf-8"), source=source)
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{source}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise SnapshotError(f"{source}: cannot be read: {error.strerror}") from None


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
