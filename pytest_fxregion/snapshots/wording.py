"""Changes in, lines for a person out: causes before what follows, equal changes on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_fxregion.snapshots.changes import NONE, Change, code
from pytest_fxregion.snapshots.sizes import difference, parse_size

MOST_LINES = 60
_MOST_NAMES = 4
_MOST_SOURCES = 3  # pairs of source lines that are quoted


def summary_lines(changes: Sequence[Change]) -> list[str]:
    """Say in words what changed; at most :data:`MOST_LINES` lines, what is left out is said."""
    by_kind: dict[str, list[Change]] = {}
    for change in changes:
        by_kind.setdefault(change.kind, []).append(change)
    if by_kind.keys() == {"renumbered"}:
        return [f"renumbering only: {len(changes)} names ({_counts(_by_stage(changes), '')})"]
    said = [
        line
        for kinds, say in _WORDING
        if (found := [change for kind in kinds for change in by_kind.get(kind, ())])
        for line in say(found)
    ]
    if len(said) > MOST_LINES:
        return [*said[:MOST_LINES], f"... and {len(said) - MOST_LINES} more lines like these"]
    return said


def _name(subject: str) -> str:
    piece, inside, name = subject.rpartition("/")
    return f"`{name}` of {piece}" if inside else f"`{name}`"


def _value(text: str) -> str:
    """Return a value's name and what may follow it, ``t = t(primals_1)``, ``mul (gone)``."""
    name, space, rest = text.partition(" ")
    return f"{_name(name)}{space}{rest}"


def _names(subjects: Iterable[str]) -> str:
    names = [_name(subject) for subject in dict.fromkeys(subjects)]
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _by_stage(changes: Iterable[Change]) -> dict[str, list[str]]:
    """Return the subjects, each once, by stage."""
    stages: dict[str, dict[str, None]] = {}
    for change in changes:
        stages.setdefault(change.stage, {})[change.subject] = None
    return {stage: list(subjects) for stage, subjects in stages.items()}


def _counts(stages: Mapping[str, Sequence[str]], what: str) -> str:
    """Return ``13 nodes in joint, 6 in forward``."""
    (stage, subjects), *rest = stages.items()
    first = f"{_count(len(subjects), what)} in {stage}" if what else f"{len(subjects)} in {stage}"
    return ", ".join([first, *(f"{len(subjects)} in {stage}" for stage, subjects in rest)])


def _who(changes: Iterable[Change]) -> tuple[str, str]:
    """Return which nodes a line is about: what it begins with, and what it ends with.

    A few are named, ``a, b in joint and c in forward``; many are counted, and some named at the
    end.
    """
    stages = _by_stage(changes)
    if all(len(subjects) <= _MOST_NAMES for subjects in stages.values()):
        alike: dict[frozenset[str], list[str]] = {}
        for stage, subjects in stages.items():
            alike.setdefault(frozenset(subjects), []).append(stage)
        *first, last = (
            f"{_names(stages[where[0]])} in {', '.join(where)}" for where in alike.values()
        )
        return f"{', '.join(first)} and {last}" if first else last, ""
    most = max(stages.values(), key=len)
    return _counts(stages, "node"), f" ({', '.join(map(_name, most[:_MOST_NAMES]))}, …)"


def _alike(changes: Iterable[Change]) -> dict[tuple[str, str], list[Change]]:
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.before, change.after), []).append(change)
    return groups


def _arrow(what: str = "") -> Callable[[list[Change]], list[str]]:
    prefix = f"{what} " if what else ""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for (before, after), alike in _alike(changes).items():
            who, names = _who(alike)
            lines.append(f"{who}: {prefix}{before or NONE} → {after or NONE}{names}")
        return lines

    return say


def _tags(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        key, _, was = before.partition(": ")
        who, names = _who(alike)
        lines.append(f"{who}: {key} {was} → {after.partition(': ')[2]}{names}")
    return lines


def _added_or_removed(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        who, names = _who(alike)
        lines.append(f"{before or after} {'removed' if before else 'added'}: {who}{names}")
    return lines


def _inputs(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        who, names = _who(alike)
        was, now = (", ".join(map(_value, side.split("; "))) for side in (before, after))
        lines.append(f"{who}: takes {now} instead of {was}{names}")
    return lines


def _order(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        who, names = _who(alike)
        was, now = (
            ", ".join(name.rpartition("/")[2] for name in side.split("; "))
            for side in (before, after)
        )
        lines.append(f"{who}: the same operands in another order: {was} → {now}{names}")
    return lines


def _moves(word: str) -> Callable[[list[Change]], list[str]]:
    """Say of nodes which group, a region or a compiled piece, they left or entered."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for (before, after), alike in _alike(changes).items():
            outer = (
                Change(each.stage, each.kind, each.subject.rpartition("/")[2]) for each in alike
            )
            who, names = _who(outer)
            if before and after:
                move = f"moved from {word}{before} to {word}{after}"
            else:
                move = f"left {word}{before}" if before else f"entered {word}{after}"
            lines.append(f"{who} {move}{names}")
        return lines

    return say


def _groups(word: str) -> Callable[[list[Change]], list[str]]:
    """Say what became of whole groups."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        lone: dict[tuple[str, str], list[str]] = {}
        for (before, after), alike in _alike(changes).items():
            stages = ", ".join(dict.fromkeys(each.stage for each in alike))
            if not before:
                lone.setdefault(("appeared in", stages), []).append(after)
            elif not after:
                lone.setdefault(("vanished from", stages), []).append(before)
            elif "," in after:
                lines.append(f"{word}{before} in {stages} was split into {after}")
            elif "," in before:
                lines.append(f"{word}{before} in {stages} were merged into {after}")
            else:
                lines.append(f"{word}{before} in {stages} is called {after} now")
        for (verb, stages), found in lone.items():
            lines.append(f"{', '.join(f'{word}{name}' for name in found)} {verb} {stages}")
        return lines

    return say


def _checkpointed(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        who, names = _who(alike)
        what = f"no longer checkpointed (was {before})" if before else f"checkpointed now ({after})"
        lines.append(f"{who}: {what}{names}")
    return lines


def _accumulations(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in _alike(changes).items():
        who, names = _who(alike)
        verb = "vanished" if before else "appeared"
        lines.append(f"gradient accumulation {who} {verb}: {before or after}{names}")
    return lines


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _are(count: int) -> str:
    return "are" if count != 1 else "is"


def _saved(changes: list[Change]) -> list[str]:
    lines = []
    for stage in dict.fromkeys(change.stage for change in changes):
        lines += _saved_by(stage, [change for change in changes if change.stage == stage])
    return lines


def _saved_by(stage: str, changes: Sequence[Change]) -> list[str]:
    lines = []
    total: Counter[str] = Counter()
    parts = (
        ("more", [change for change in changes if not change.before]),
        ("less", [change for change in changes if not change.after]),
        ("", [change for change in changes if change.before and change.after]),
    )
    for word, found in parts:
        if not found:
            continue
        delta: Counter[str] = Counter()
        for change in found:
            delta.update(_size(change.after))
            delta.subtract(_size(change.before))
        total.update(delta)
        count, names = len(found), _names(change.subject for change in found)
        saved = f"saved for the backward by {stage}"
        what = (
            f"{_count(count, 'value')} {word} {_are(count)} {saved}"
            if word
            else f"{_count(count, 'value')} {saved} {'have' if count != 1 else 'has'} another type"
        )
        lines.append(f"{what}: {difference(delta)} ({names})")
    if len(lines) > 1:
        lines.append(f"in all {difference(total)} saved for the backward by {stage}")
    return lines


def _size(held: str) -> Counter[str]:
    return parse_size(held.partition(" B ")[0]) if held else Counter()


def _recomputed(changes: list[Change]) -> list[str]:
    lines = []
    for (before, _), alike in _alike(changes).items():
        for stage, subjects in _by_stage(alike).items():
            count = len(subjects)
            nodes = f"{_count(count, 'node')} {'less' if before else 'more'} {_are(count)}"
            lines.append(f"{nodes} recomputed in {stage}: {_names(subjects)}")
    return lines


def _outputs(changes: list[Change]) -> list[str]:
    lines = []
    for (before, _), alike in _alike(changes).items():
        who, names = _who(alike)
        lines.append(f"{who}: {'no longer returned' if before else 'returned now, too'}{names}")
    return lines


def _signature(changes: list[Change]) -> list[str]:
    stages: dict[str, list[str]] = {}
    for stage, subjects in _by_stage(changes).items():
        stages.setdefault(" and ".join(sorted(subjects)), []).append(stage)
    return [f"{what} of {', '.join(of)} in another order or form" for what, of in stages.items()]


def _sources(changes: list[Change]) -> list[str]:
    pairs = _alike(changes)
    if len(pairs) > _MOST_SOURCES:
        return _with(": other source lines")(changes)
    lines = []
    for (before, after), alike in pairs.items():
        where = [side.partition(": ") for side in (before, after)]
        was, now = (code(side) for side in (before, after))
        if where[0][0] != where[1][0] or was == now:
            was, now = before or NONE, after or NONE
        who, names = _who(alike)
        lines.append(f"{who}: source `{was}` → `{now}`{names}")
    return lines


def _with(what: str) -> Callable[[list[Change]], list[str]]:
    def say(changes: list[Change]) -> list[str]:
        who, names = _who(changes)
        return [f"{who}{what}{names}"]

    return say


def _renumbered(changes: list[Change]) -> list[str]:
    return [f"renumbered: {_counts(_by_stage(changes), 'name')}"]


def _text(changes: list[Change]) -> list[str]:
    stages = dict.fromkeys(change.stage for change in changes)
    return [f"text of {', '.join(stages)} that is no node differs"]


def _sections(changes: list[Change]) -> list[str]:
    return [
        f"the {change.kind} `{change.subject}` is {'gone' if change.before else 'new'}"
        + ("" if change.kind == "section" else f" in {change.stage}")
        for change in changes
    ]


_WORDING: tuple[tuple[tuple[str, ...], Callable[[list[Change]], list[str]]], ...] = (
    (("section", "subgraph"), _sections),
    (("replaced",), _arrow()),
    (("removed", "added"), _added_or_removed),
    (("arguments",), _arrow("arguments")),
    (("inputs",), _inputs),
    (("order",), _order),
    (("dtype",), _arrow("dtype")),
    (("shape",), _arrow("shape")),
    (("stride",), _arrow("stride")),
    (("device",), _arrow("device")),
    (("type",), _arrow("type")),
    (("outputs",), _outputs),
    (("signature",), _signature),
    (("region",), _groups("region ")),
    (("region of",), _moves("region ")),
    (("piece",), _groups("")),
    (("piece of",), _moves("")),
    (("checkpointed",), _checkpointed),
    (("recompute",), _arrow("checkpoint tag")),
    (("ac_graph_id",), _tags),
    (("saved",), _saved),
    (("recomputed",), _recomputed),
    (("gradient accumulation",), _accumulations),
    (("tag",), _tags),
    (("text",), _text),
    (("moved",), _with(": earlier or later in the graph")),
    (("source",), _sources),
    (("renamed",), _arrow("name")),
    (("renumbered",), _renumbered),
)
