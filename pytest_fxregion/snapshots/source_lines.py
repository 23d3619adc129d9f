"""Changes of source lines in, words out: lines that were edited, and lines that were moved."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_fxregion.snapshots.changes import NONE, Change, code
from pytest_fxregion.snapshots.subjects import about

_MOST_SOURCES = 3  # pairs of source lines that are quoted


def source_lines(changes: list[Change]) -> list[str]:
    """Say which lines of the program are others, and which are the same in another place."""
    moved = [change for change in changes if _code(change.before) == _code(change.after)]
    edited = [change for change in changes if _code(change.before) != _code(change.after)]
    lines = []
    pairs: dict[tuple[str, str], list[Change]] = {}
    for change in edited:
        cut = code(change.before), code(change.after)
        whole = _code(change.before), _code(change.after)
        pairs.setdefault(whole if cut[0] == cut[1] else cut, []).append(change)
    if len(pairs) > _MOST_SOURCES:
        lines += [_about(edited, ": other source lines")]
    else:
        for (before, after), alike in pairs.items():
            nodes, names = about(alike)
            lines.append(f"{nodes}: source `{before or NONE}` → `{after or NONE}`{names}")
    return lines + _moved_sources(moved)


def _moved_sources(changes: Sequence[Change]) -> list[str]:
    files: dict[tuple[str, str], list[Change]] = {}
    functions: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        (file, function), (new_file, new_function) = map(_where, (change.before, change.after))
        if function == new_function:
            files.setdefault((file, new_file), []).append(change)
        elif file == new_file:
            functions.setdefault((function, new_function), []).append(change)
        else:
            moved = f"{function} of {file}", f"{new_function} of {new_file}"
            functions.setdefault(moved, []).append(change)
    lines = []
    for what, found in (("file", files), ("function", functions)):
        if len(found) > _MOST_SOURCES:
            alike = [change for group in found.values() for change in group]
            lines += [_about(alike, f": the same source lines in other {what}s")]
            continue
        for (before, after), group in found.items():
            nodes, names = about(group)
            where = f"the same source lines in another {what}, {before} → {after}"
            lines.append(f"{nodes}: {where}{names}")
    return lines


def _code(source: str) -> str:
    return source.partition(": ")[2] or source


def _where(source: str) -> tuple[str, str]:
    """Return file and function of a source comment, ``file.py in function: code``."""
    file, _, function = source.partition(": ")[0].rpartition(" in ")
    return file, function


def _about(changes: Sequence[Change], what: str) -> str:
    nodes, names = about(changes)
    return f"{nodes}{what}{names}"
