"""Changes in, lines for a person out: what matters most first, equal changes on one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pytest_fxregion.snapshots.changes import NONE, Change

MOST_LINES = 60
_MOST_NAMES = 4
_UNITS = ("KiB", "MiB", "GiB")
_IN = "\0"  # stands for the stages in a line, until lines of several stages are put together


def summary_lines(changes: Sequence[Change]) -> list[str]:
    """Say in words what changed; at most :data:`MOST_LINES` lines, what is left out is said."""
    lines: dict[str, list[str]] = {}
    by_kind: dict[str, dict[str, list[Change]]] = {}
    for change in changes:
        by_kind.setdefault(change.kind, {}).setdefault(change.stage, []).append(change)
    for kinds, say in _WORDING:
        for kind in kinds:
            for stage, found in by_kind.get(kind, {}).items():
                for line in say(found):
                    lines.setdefault(line, []).append(stage)
    said = [line.replace(_IN, ", ".join(dict.fromkeys(stages))) for line, stages in lines.items()]
    if changes and all(change.kind == "renumbered" for change in changes):
        per_stage = (f"{len(found)} in {stage}" for stage, found in by_kind["renumbered"].items())
        return [f"renumbering only: {len(changes)} names ({', '.join(per_stage)})"]
    if len(said) > MOST_LINES:
        return [*said[:MOST_LINES], f"... and {len(said) - MOST_LINES} more lines like these"]
    return said


def size(count: int) -> str:
    """Return a number of bytes as a person reads it, ``8.0 KiB``; exact below 1 KiB."""
    if abs(count) < 1024:
        return f"{count} B"
    unit = min((abs(count).bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**unit:.1f} {_UNITS[unit - 1]}"


def _names(subjects: Iterable[str]) -> str:
    names = [_name(subject) for subject in dict.fromkeys(subjects)]
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _name(subject: str) -> str:
    piece, inside, name = subject.rpartition("/")
    return f"`{name}` of {piece}" if inside else f"`{name}`"


def _grouped(changes: Iterable[Change]) -> dict[tuple[str, str], list[str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        groups.setdefault((change.before, change.after), []).append(change.subject)
    return groups


def _arrow(what: str = "") -> Callable[[list[Change]], list[str]]:
    prefix = f"{what} " if what else ""

    def say(changes: list[Change]) -> list[str]:
        return [
            f"{_names(subjects)} in {_IN}: {prefix}{before or NONE} → {after or NONE}"
            for (before, after), subjects in _grouped(changes).items()
        ]

    return say


def _tags(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), subjects in _grouped(changes).items():
        key, _, was = before.partition(": ")
        lines.append(f"{_names(subjects)} in {_IN}: {key} {was} → {after.partition(': ')[2]}")
    return lines


def _added_or_removed(changes: list[Change]) -> list[str]:
    what = "added to" if changes[0].kind == "added" else "removed from"
    return [
        f"{_names(subjects)} {what} {_IN}: {before or after}"
        for (before, after), subjects in _grouped(changes).items()
    ]


def _moves(word: str) -> Callable[[list[Change]], list[str]]:
    """Say of nodes which group, a region or a compiled piece, they left or entered."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for (before, after), subjects in _grouped(changes).items():
            names = _names(subject.rpartition("/")[2] for subject in subjects)
            if before and after:
                move = f"moved from {word}{before} to {word}{after}"
            else:
                move = f"left {word}{before}" if before else f"entered {word}{after}"
            lines.append(f"{names} in {_IN} {move}")
        return lines

    return say


def _groups(word: str) -> Callable[[list[Change]], list[str]]:
    """Say what became of whole groups."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for change in changes:
            before, after = change.before, change.after
            if not before:
                lines.append(f"{word}{after} appeared in {_IN}")
            elif not after:
                lines.append(f"{word}{before} vanished from {_IN}")
            elif "," in after:
                lines.append(f"{word}{before} in {_IN} was split into {after}")
            elif "," in before:
                lines.append(f"{word}{before} in {_IN} were merged into {after}")
            else:
                lines.append(f"{word}{before} in {_IN} is called {after} now")
        return lines

    return say


def _accumulations(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), subjects in _grouped(changes).items():
        what = f"gradient accumulation {_names(subjects)} ({before or after})"
        lines.append(f"{what} vanished from {_IN}" if before else f"{what} appeared in {_IN}")
    return lines


def _more_or_less(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _are(count: int) -> str:
    return "are" if count != 1 else "is"


def _saved(changes: list[Change]) -> list[str]:
    lines = []
    sizes = [(_bytes(change.before), _bytes(change.after), change) for change in changes]
    for more in (True, False):
        found = [
            (after - before, change)
            for before, after, change in sizes
            if bool(change.after) != bool(change.before) and bool(change.after) == more
        ]
        if found:
            total = sum(delta for delta, _ in found)
            word, sign = ("more", "+") if more else ("less", "")
            lines.append(
                f"{_more_or_less(len(found))} {word} {_are(len(found))} saved for backward by "
                f"{_IN}: {sign}{size(total)} ({_names(change.subject for _, change in found)})"
            )
    for _, _, change in sizes:
        if change.before and change.after:
            before, after = (text.partition(" ") for text in (change.before, change.after))
            lines.append(
                f"{_name(change.subject)} is saved for backward by {_IN} as {after[2]}, "
                f"{size(int(after[0]))}; was {before[2]}, {size(int(before[0]))}"
            )
    total = sum(after - before for before, after, _ in sizes)
    if len(lines) > 1:
        change_in_all = f"{'+' if total > 0 else ''}{size(total)}" if total else "as many bytes"
        lines.append(f"in all {change_in_all} saved for backward by {_IN}")
    return lines


def _bytes(text: str) -> int:
    return int(text.partition(" ")[0]) if text else 0


def _recomputed(changes: list[Change]) -> list[str]:
    lines = []
    for (before, _), subjects in _grouped(changes).items():
        count = len(subjects)
        word = "less" if before else "more"
        lines.append(
            f"{_more_or_less(count)} {word} {_are(count)} recomputed in {_IN}: {_names(subjects)}"
        )
    return lines


def _outputs(changes: list[Change]) -> list[str]:
    return [
        f"{_names(subjects)} {'no longer returned' if before else 'returned now, too,'} by {_IN}"
        for (before, _), subjects in _grouped(changes).items()
    ]


def _count(text: str) -> Callable[[list[Change]], list[str]]:
    def say(changes: list[Change]) -> list[str]:
        names = _names(change.subject for change in changes)
        return [text.format(nodes=_more_or_less(len(changes)), names=names, stages=_IN)]

    return say


def _renumbered(changes: list[Change]) -> list[str]:
    return [f"{len(changes)} name{'s' if len(changes) != 1 else ''} renumbered in {_IN}"]


def _sections(changes: list[Change]) -> list[str]:
    return [
        f"the {change.kind} `{change.subject}` is {'gone' if change.before else 'new'}"
        + ("" if change.kind == "section" else f" in {_IN}")
        for change in changes
    ]


_WORDING: tuple[tuple[tuple[str, ...], Callable[[list[Change]], list[str]]], ...] = (
    (("section", "subgraph"), _sections),
    (("region",), _groups("region ")),
    (("piece",), _groups("")),
    (("region of",), _moves("region ")),
    (("piece of",), _moves("")),
    (("recompute",), _arrow()),
    (("saved",), _saved),
    (("recomputed",), _recomputed),
    (("gradient accumulation",), _accumulations),
    (("removed", "added"), _added_or_removed),
    (("replaced",), _arrow()),
    (("dtype",), _arrow("dtype")),
    (("shape",), _arrow("shape")),
    (("stride",), _arrow("stride")),
    (("device",), _arrow("device")),
    (("type",), _arrow("type")),
    (("arguments",), _arrow("arguments")),
    (("inputs",), _arrow("inputs")),
    (("outputs",), _outputs),
    (("ac_graph_id", "tag"), _tags),
    (("moved",), _count("{nodes} in {stages} in another order: {names}")),
    (("renamed",), _arrow("name")),
    (("source",), _count("{nodes} in {stages} from other source lines: {names}")),
    (("renumbered",), _renumbered),
    (("text",), _count("text of {stages} that is no node differs")),
)
