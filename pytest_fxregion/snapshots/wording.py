"""Changes in, lines for a person out: causes before what follows, equal changes on one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_fxregion.snapshots.changes import NONE, Change
from pytest_fxregion.snapshots.sizes import difference, parse_size
from pytest_fxregion.snapshots.source_lines import source_lines
from pytest_fxregion.snapshots.subjects import (
    about,
    alike_changes,
    are,
    by_stage,
    counted,
    counted_by_stage,
    node_names,
    value_name,
)

MOST_LINES = 60
_MOST_OPERATIONS = 8  # kinds of operations that are named, of those added or removed
_MOST_PIECES = 4  # compiled regions that nodes left or entered
_NUMBER = re.compile(r"(?<=[A-Za-z])_\d+\b")  # in the names of values


def summary_lines(changes: Sequence[Change]) -> list[str]:
    """Say in words what changed; at most :data:`MOST_LINES` lines, what is left out is said."""
    by_kind: dict[str, list[Change]] = {}
    for change in changes:
        by_kind.setdefault(change.kind, []).append(change)
    if by_kind.keys() == {"renumbered"}:
        return [
            f"renumbering only: {len(changes)} names ({counted_by_stage(by_stage(changes), '')})"
        ]
    said = [
        line
        for kinds, say in _WORDING
        if (found := [change for kind in kinds for change in by_kind.get(kind, ())])
        for line in say(found)
    ]
    if len(said) > MOST_LINES:
        more = counted(len(said) - MOST_LINES, "more line")
        return [*said[:MOST_LINES], f"... and {more} like these"]
    return said


def _arrow(what: str = "") -> Callable[[list[Change]], list[str]]:
    prefix = f"{what} " if what else ""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for (before, after), alike in alike_changes(changes).items():
            nodes, names = about(alike)
            lines.append(f"{nodes}: {prefix}{before or NONE} → {after or NONE}{names}")
        return lines

    return say


def _tags(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in alike_changes(changes).items():
        key, _, was = before.partition(": ")
        nodes, names = about(alike)
        lines.append(f"{nodes}: {key} {was} → {after.partition(': ')[2]}{names}")
    return lines


def _added_or_removed(changes: list[Change]) -> list[str]:
    lines = []
    for done, found in (
        ("removed", [change for change in changes if change.before]),
        ("added", [change for change in changes if change.after]),
    ):
        groups = sorted(alike_changes(found).items(), key=lambda group: -len(group[1]))
        if len(groups) > _MOST_OPERATIONS:
            lines.append(
                f"{done}: {counted_by_stage(by_stage(found), 'node')}, of {len(groups)} kinds"
            )
        else:
            groups = list(alike_changes(found).items())
        for (before, after), alike in groups[:_MOST_OPERATIONS]:
            nodes, names = about(alike)
            lines.append(f"{before or after} {done}: {nodes}{names}")
        if len(groups) > _MOST_OPERATIONS:
            more = counted(len(groups) - _MOST_OPERATIONS, "more kind")
            lines.append(f"... and {more} {done}")
    return lines


def _arguments(changes: list[Change]) -> list[str]:
    """Say of calls what they are given; those that differ in numbers of names only are alike."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        key = (_unnumbered(change.before), _unnumbered(change.after))
        groups.setdefault(key, []).append(change)
    lines = []
    for form, alike in groups.items():
        texts = {(change.before, change.after) for change in alike}
        before, after = texts.pop() if len(texts) == 1 else form
        nodes, names = about(alike)
        lines.append(f"{nodes}: arguments {before} → {after}{names}")
    return lines


def _unnumbered(arguments: str) -> str:
    return _NUMBER.sub("", arguments)


def _inputs(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in alike_changes(changes).items():
        nodes, names = about(alike)
        was, now = (", ".join(map(value_name, side.split("; "))) for side in (before, after))
        lines.append(f"{nodes}: takes {now} instead of {was}{names}")
    return lines


def _order(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in alike_changes(changes).items():
        nodes, names = about(alike)
        was, now = (
            ", ".join(name.rpartition("/")[2] for name in side.split("; "))
            for side in (before, after)
        )
        lines.append(f"{nodes}: the same operands in another order: {was} → {now}{names}")
    return lines


def _moves(word: str) -> Callable[[list[Change]], list[str]]:
    """Say of nodes which group, a region or a compiled piece, they left or entered."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        for (before, after), alike in alike_changes(changes).items():
            nodes, names = about(map(_outer, alike))
            if before and after:
                move = f"moved from {word}{before} to {word}{after}"
            else:
                move = f"left {word}{before}" if before else f"entered {word}{after}"
            lines.append(f"{nodes} {move}{names}")
        return lines

    return say


def _outer(change: Change) -> Change:
    """Return a change of a node by the node's name alone, without the region that it was in."""
    return replace(change, subject=change.subject.rpartition("/")[2])


def _piece_moves(changes: list[Change]) -> list[str]:
    """Say which compiled regions nodes left or entered; of many regions only how many they are.

    Every layer has regions of its own, and an annotation that is moved changes all of them.
    """
    lines = []
    for verb, side in (("left", "before"), ("entered", "after")):
        found = [c for c in changes if bool(c.before) != bool(c.after) and getattr(c, side)]
        pieces = dict.fromkeys(getattr(c, side) for c in found)
        if len(pieces) <= _MOST_PIECES:
            lines += _moves("")(found)
        else:
            nodes, names = about(found)
            lines.append(f"{nodes} {verb} {len(pieces)} compiled regions{names}")
    return lines + _moves("")([c for c in changes if c.before and c.after])


def _groups(word: str) -> Callable[[list[Change]], list[str]]:
    """Say what became of whole groups."""

    def say(changes: list[Change]) -> list[str]:
        lines = []
        lone: dict[tuple[str, str], list[str]] = {}
        for (before, after), alike in alike_changes(changes).items():
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
    for (before, after), alike in alike_changes(changes).items():
        nodes, names = about(alike)
        what = f"no longer checkpointed (was {before})" if before else f"checkpointed now ({after})"
        lines.append(f"{nodes}: {what}{names}")
    return lines


def _accumulations(changes: list[Change]) -> list[str]:
    lines = []
    for (before, after), alike in alike_changes(changes).items():
        nodes, names = about(alike)
        verb = "vanished" if before else "appeared"
        lines.append(f"gradient accumulation {nodes} {verb}: {before or after}{names}")
    return lines


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
        count, names = len(found), node_names(change.subject for change in found)
        saved = f"saved for the backward by {stage}"
        what = (
            f"{counted(count, 'value')} {word} {are(count)} {saved}"
            if word
            else f"{counted(count, 'value')} {saved} {'have' if count != 1 else 'has'} another type"
        )
        lines.append(f"{what}: {difference(delta)} ({names})")
    if len(lines) > 1:
        lines.append(f"in all {difference(total)} saved for the backward by {stage}")
    return lines


def _size(held: str) -> Counter[str]:
    return parse_size(held.partition(" B ")[0]) if held else Counter()


def _recomputed(changes: list[Change]) -> list[str]:
    lines = []
    for (before, _), alike in alike_changes(changes).items():
        for stage, subjects in by_stage(alike).items():
            count = len(subjects)
            nodes = f"{counted(count, 'node')} {'less' if before else 'more'} {are(count)}"
            lines.append(f"{nodes} recomputed in {stage}: {node_names(subjects)}")
    return lines


def _outputs(changes: list[Change]) -> list[str]:
    lines = []
    for (before, _), alike in alike_changes(changes).items():
        nodes, names = about(alike)
        lines.append(f"{nodes}: {'no longer returned' if before else 'returned now, too'}{names}")
    return lines


def _signature(changes: list[Change]) -> list[str]:
    stages: dict[str, list[str]] = {}
    for stage, subjects in by_stage(changes).items():
        stages.setdefault(" and ".join(sorted(subjects)), []).append(stage)
    return [f"{what} of {', '.join(of)} in another order or form" for what, of in stages.items()]


def _with(what: str) -> Callable[[list[Change]], list[str]]:
    def say(changes: list[Change]) -> list[str]:
        nodes, names = about(changes)
        return [f"{nodes}{what}{names}"]

    return say


def _renumbered(changes: list[Change]) -> list[str]:
    return [f"renumbered: {counted_by_stage(by_stage(changes), 'name')}"]


def _lines(changes: list[Change]) -> list[str]:
    return [f"lines of {_stages(changes)} that are no nodes differ"]


def _text(changes: list[Change]) -> list[str]:
    return [f"the text of {_stages(changes)} differs"]


def _stages(changes: list[Change]) -> str:
    return ", ".join(dict.fromkeys(change.stage for change in changes))


def _graphs(changes: list[Change]) -> list[str]:
    return [
        f"the function is compiled as {counted(int(change.after), 'graph')}, not as {change.before}"
        + (
            " any more: a graph breaks (TORCH_LOGS=graph_breaks says where)"
            if int(change.after) > int(change.before)
            else ""
        )
        for change in changes
    ]


def _sections(changes: list[Change]) -> list[str]:
    lines = []
    for done in ("gone", "new"):
        found = [change for change in changes if bool(change.before) == (done == "gone")]
        stages = [change.subject for change in found if change.kind == "section"]
        if stages:
            named = ", ".join(f"`{stage}`" for stage in stages)
            what = "the section" if len(stages) == 1 else "the sections"
            lines.append(f"{what} {named} {are(len(stages))} {done}")
        lines += (
            f"the {change.kind} `{change.subject}` is {done} in {change.stage}"
            for change in found
            if change.kind != "section"
        )
    return lines


_WORDING: tuple[tuple[tuple[str, ...], Callable[[list[Change]], list[str]]], ...] = (
    (("graphs",), _graphs),
    (("section", "subgraph"), _sections),
    (("region",), _groups("region ")),
    (("region of",), _moves("region ")),
    (("checkpointed",), _checkpointed),
    (("replaced",), _arrow()),
    (("removed", "added"), _added_or_removed),
    (("arguments",), _arguments),
    (("inputs",), _inputs),
    (("order",), _order),
    (("dtype",), _arrow("dtype")),
    (("shape",), _arrow("shape")),
    (("stride",), _arrow("stride")),
    (("device",), _arrow("device")),
    (("type",), _arrow("type")),
    (("outputs",), _outputs),
    (("signature",), _signature),
    (("recompute",), _arrow("checkpoint tag")),
    (("ac_graph_id",), _tags),
    (("piece",), _groups("")),
    (("piece of",), _piece_moves),
    (("saved",), _saved),
    (("recomputed",), _recomputed),
    (("gradient accumulation",), _accumulations),
    (("tag",), _tags),
    (("lines",), _lines),
    (("text",), _text),
    (("moved",), _with(": earlier or later in the graph")),
    (("source",), source_lines),
    (("renamed",), _arrow("name")),
    (("renumbered",), _renumbered),
)
