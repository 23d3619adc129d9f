"""What changed in each of many tests in, the same put together by kind of change out.

What is the same change in many tests (``aten.t.default`` became ``aten.permute.default``) is one
:class:`Group`.  Names of nodes and of compiled regions, which differ from test to test, are left
out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.changes import NONE, Change
from pytest_fxregion.snapshots.matching import stem
from pytest_fxregion.snapshots.sizes import difference, parse_size


@dataclass(frozen=True)
class Occurrence:
    """A change in one test: in which stages, how often, and a word more where there is one."""

    test: str
    stages: tuple[str, ...]
    count: int
    detail: str = ""


@dataclass(frozen=True)
class Group:
    """One change, and the tests that it is in."""

    heading: str
    what: str
    tests: tuple[Occurrence, ...]


def group_changes(tests: Iterable[tuple[str, Sequence[Change]]]) -> Iterator[Group]:
    """Yield the groups, by heading, the most frequent first; of each test its name and changes."""
    found: dict[str, dict[str, list[Occurrence]]] = {heading: {} for heading, _ in _HEADINGS}
    for test, changes in tests:
        for heading, what, occurrence in _occurrences(test, changes):
            found[heading].setdefault(what, []).append(occurrence)
    for heading, by_change in found.items():
        for what, all_of in sorted(by_change.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            yield Group(heading, what, tuple(all_of))


def _occurrences(test: str, changes: Sequence[Change]) -> Iterator[tuple[str, str, Occurrence]]:
    by_change: dict[tuple[str, str], list[Change]] = {}
    saved: list[Change] = []
    for change in changes:
        heading, say = _SAYING.get(change.kind, _UNKNOWN)
        if change.kind == "saved":
            saved.append(change)
        else:
            by_change.setdefault((heading, say(change)), []).append(change)
    if saved:
        what, detail = _say_saved(saved)
        yield _SAYING["saved"][0], what, _occurrence(test, saved, detail)
    for (heading, what), alike in by_change.items():
        example = _arrow(alike[0]) if alike[0].kind == "arguments" else ""
        yield heading, what, _occurrence(test, alike, example)
    if not changes:
        what = "only comments and numbers of compiled regions differ"
        yield _OTHER, what, Occurrence(test, (), 1)


def _occurrence(test: str, changes: Sequence[Change], detail: str = "") -> Occurrence:
    stages = tuple(dict.fromkeys(change.stage for change in changes))
    return Occurrence(test, stages, len(changes), detail)


def _say_saved(changes: Sequence[Change]) -> tuple[str, str]:
    """Put all that a test saves otherwise on one line, by what it comes to."""
    more = sum(bool(change.after) and not change.before for change in changes)
    less = sum(bool(change.before) and not change.after for change in changes)
    other = len(changes) - more - less
    parts = ((more, "more"), (less, "less"), (other, "of another type"))
    counts = ", ".join(f"{count} {word}" for count, word in parts if count) + " saved"
    total: Counter[str] = Counter()
    for change in changes:
        total.update(_size(change.after))
        total.subtract(_size(change.before))
    signs = {count > 0 for count in total.values() if count}
    if not signs:
        return "other values of the same size", counts
    what = (
        "more or fewer bytes" if len(signs) > 1 else f"{'more' if True in signs else 'fewer'} bytes"
    )
    return what, f"{difference(total)}: {counts}"


def _size(held: str) -> Counter[str]:
    return parse_size(held.partition(" B ")[0]) if held else Counter()


def _arrow(change: Change) -> str:
    return f"{change.before or NONE} → {change.after or NONE}"


def _with_kind(change: Change) -> str:
    return f"{change.kind} {_arrow(change)}"


def _operation(change: Change) -> str:
    what = change.before or change.after
    if what.startswith("input "):  # its type differs from test to test
        what = "inputs"
    return f"{what} {'removed' if change.before else 'added'}"


def _region(change: Change) -> str:
    before, after = change.before, change.after
    if not before or not after:
        return f"region {before or after} {'vanished' if before else 'appeared'}"
    if "," in after:
        return f"region {before} was split into {after}"
    if "," in before:
        return f"regions {before} were merged into {after}"
    return f"region {before} is called {after} now"


def _piece(change: Change) -> str:
    before, after = change.before, change.after
    if not before or not after:
        return f"a compiled region {'vanished' if before else 'appeared'}"
    if "," in after:
        return f"a compiled region was split into {after.count(',') + 1}"
    return f"{before.count(',') + 1} compiled regions were merged into one"


def _region_of(change: Change) -> str:
    if change.before and change.after:
        return f"nodes moved from region {change.before} to region {change.after}"
    return (
        f"nodes left region {change.before}"
        if change.before
        else f"nodes entered region {change.after}"
    )


def _piece_of(change: Change) -> str:
    if change.before and change.after:
        return "nodes moved to another compiled region"
    return (
        "nodes left their compiled region" if change.before else "nodes entered a compiled region"
    )


def _appeared(change: Change) -> str:
    return "appeared" if change.after else "vanished"


def _recomputed(change: Change) -> str:
    return "recomputed in the backward" + ("" if change.after else " no longer")


def _of_node(what: str) -> Callable[[Change], str]:
    return lambda change: f"{what} of `{stem(change.subject.rpartition('/')[2])}`"


def _output(change: Change) -> str:
    return "returned now, too" if change.after else "no longer returned"


def _graphs(change: Change) -> str:
    return f"compiled as {change.after} graphs, before as {change.before}"


def _section(change: Change) -> str:
    return f"{change.kind} `{change.subject}` {'added' if change.after else 'removed'}"


def _checkpointed(change: Change) -> str:
    return f"no longer checkpointed ({change.before})" if change.before else "checkpointed now"


def _signature(change: Change) -> str:
    return f"{change.subject} in another order or form"


def _fixed(text: str) -> Callable[[Change], str]:
    return lambda _: text


_OTHER = "order, names and source lines"

# What each kind of change is listed under, and what the same change in several tests is called.
_HEADINGS: tuple[tuple[str, Mapping[str, Callable[[Change], str]]], ...] = (
    ("annotated regions", {"region": _region, "region of": _region_of}),
    ("compiled regions", {"piece": _piece, "piece of": _piece_of}),
    (
        "activation checkpointing",
        {
            "checkpointed": _checkpointed,
            "recompute": _arrow,
            "recomputed": _recomputed,
            "ac_graph_id": _fixed("nodes of another checkpointed call"),
        },
    ),
    ("saved for the backward", {"saved": _fixed("")}),
    ("gradient accumulations", {"gradient accumulation": _appeared}),
    ("operations replaced", {"replaced": _arrow}),
    ("operations added or removed", {"added": _operation, "removed": _operation}),
    (
        "dtypes, shapes, strides, devices",
        dict.fromkeys(("dtype", "shape", "stride", "device", "type"), _with_kind),
    ),
    (
        "arguments, inputs and outputs",
        {
            "arguments": _of_node("arguments"),
            "inputs": _of_node("inputs"),
            "order": _of_node("order of operands"),
            "outputs": _output,
            "signature": _signature,
        },
    ),
    ("other tags", {"tag": _arrow}),
    (
        "stages, and graphs inside graphs",
        {"graphs": _graphs, "section": _section, "subgraph": _section},
    ),
    (
        _OTHER,
        {
            "moved": _fixed("nodes in another order"),
            "renamed": _fixed("nodes with other names"),
            "renumbered": _fixed("nodes renumbered"),
            "source": _fixed("nodes from other source lines"),
            "lines": _fixed("lines that are no nodes"),
            "text": _fixed("texts that are no graphs"),
        },
    ),
)
_SAYING = {kind: (heading, say) for heading, kinds in _HEADINGS for kind, say in kinds.items()}
_UNKNOWN = (_OTHER, _with_kind)
