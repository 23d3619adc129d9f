"""Two graphs with their matching in, a list of :class:`Change` out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.graph import (
    AC_GRAPH,
    GRADIENT_ACCUMULATION,
    RECOMPUTE,
    REGION,
    Graph,
    Node,
)
from pytest_fxregion.snapshots.lines import longest_increasing
from pytest_fxregion.snapshots.matching import Matching, match, stem

_TYPE = re.compile(
    r"(?P<dtype>\w+)(?P<shape>\[.*?\])(?P<stride>\[.*?\])?(?P<device>\S*)(?P<rest>.*)"
)

NONE = "none"
_LONGEST_CHAIN = 200  # nodes in a row that are gone or new, of which one looks for the sources


@dataclass(frozen=True)
class Change:
    """One thing that is different.

    Attributes:
        stage: ``joint``, ``forward``, ``graph 1: backward``, ...
        kind: what sort of thing: ``added``, ``removed``, ``replaced``, ``arguments``, ``inputs``,
            ``outputs``, ``dtype``, ``shape``, ``stride``, ``device``, ``type``, ``recompute``,
            ``ac_graph_id``, ``gradient accumulation``, ``region`` (annotation), ``piece`` (compiled
            region), ``tag``, ``saved``, ``recomputed``, ``moved``, ``renamed``, ``source``,
            ``section``.
        subject: the node, region or value that it is about, by its new name where it has one.
        before: how it was; empty if it was not.
        after: how it is; empty if it is no more.

    """

    stage: str
    kind: str
    subject: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class GraphComparison:
    """What changed between two graphs, and which old name is which new one."""

    changes: tuple[Change, ...]
    names: dict[str, str]


def compare_graphs(stage: str, old: Graph, new: Graph) -> GraphComparison:
    """List what changed between two graphs of one stage."""
    matching = match(old.nodes, new.nodes)
    pairs = [
        (old.nodes[i], new.nodes[j], i in matching.replaced)
        for i, j in enumerate(matching.to_new)
        if j >= 0
    ]
    names = {before.name: after.name for before, after, _ in pairs}
    removed = [node for i, node in enumerate(old.nodes) if matching.to_new[i] < 0]
    added = [node for j, node in enumerate(new.nodes) if matching.to_old[j] < 0]
    found: list[Change] = []
    found += (_lone(stage, "removed", node, before=operation(node)) for node in removed)
    found += (_lone(stage, "added", node, after=operation(node)) for node in added)
    edges = _Edges(names, removed, added)
    for before, after, replaced in pairs:
        found += _operation_changes(stage, before, after, replaced, names, edges)
        found += _type_changes(stage, before, after)
    same_ids = _renumbered([(_checkpoint(a), _checkpoint(b)) for a, b, _ in pairs])
    for before, after, _ in pairs:
        found += _tag_changes(stage, before, after, same_ids)
    found += (
        Change(stage, GRADIENT_ACCUMULATION, node.name, node.type, "")
        for node in removed
        if node.tag(GRADIENT_ACCUMULATION) is not None
    )
    found += (
        Change(stage, GRADIENT_ACCUMULATION, node.name, "", node.type)
        for node in added
        if node.tag(GRADIENT_ACCUMULATION) is not None
    )
    found += _group_changes(stage, "region", pairs, removed, added, lambda n: n.tag(REGION) or "")
    found += _group_changes(stage, "piece", pairs, removed, added, lambda n: n.piece)
    found += _recomputed(stage, removed, added, pairs)
    found += _order(stage, new.nodes, matching)
    found += _names_and_sources(stage, pairs)
    return GraphComparison(tuple(found), names)


def operation(node: Node) -> str:
    """Return what a node does, for a person: ``aten.mul.Tensor``."""
    return node.target.removeprefix("torch.ops.")


class _Edges:
    """Tells whether an edge differs by more than nodes that are gone or new on it."""

    def __init__(self, names: dict[str, str], removed: list[Node], added: list[Node]) -> None:
        self._names = names
        self._removed = {node.name: node.inputs for node in removed}
        self._added = {node.name: node.inputs for node in added}

    def same(self, before: str, after: str) -> bool:
        now = self._names.get(before)
        if now == after:
            return True
        if now is None:
            sources = _boundary(before, self._removed)
            return after in self._added or after in {self._names.get(name) for name in sources}
        return after in self._added and now in _boundary(after, self._added)


def _boundary(name: str, lone: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the nodes that feed a chain of unmatched nodes which ends in ``name``."""
    found: set[str] = set()
    seen = {name}
    todo = [name]
    while todo and len(seen) < _LONGEST_CHAIN:
        for value in lone.get(todo.pop(), ()):
            if value not in lone:
                found.add(value)
            elif value not in seen:
                seen.add(value)
                todo.append(value)
    return found


def _lone(stage: str, kind: str, node: Node, *, before: str = "", after: str = "") -> Change:
    if node.op == "placeholder":
        before, after = before and f"input {node.type}", after and f"input {node.type}"
    return Change(stage, kind, node.name, before, after)


def _operation_changes(
    stage: str,
    before: Node,
    after: Node,
    replaced: bool,
    names: dict[str, str],
    edges: _Edges,
) -> Iterator[Change]:
    if after.op == "output":
        kept = Counter(names.get(name, name) for name in before.inputs)
        now = Counter(after.inputs)
        gone = Counter(name for name in before.inputs if name not in names)
        for name in (kept - now - gone).elements():
            yield Change(stage, "outputs", name, "output", "")
        for name in gone:
            yield Change(stage, "outputs", name, "output", "")
        for name in (now - kept).elements():
            yield Change(stage, "outputs", name, "", "output")
        return
    if replaced:
        yield Change(stage, "replaced", after.name, operation(before), operation(after))
    elif before.literal != after.literal and before.op == "call":
        yield Change(stage, "arguments", after.name, before.args, after.args)
    if len(before.inputs) == len(after.inputs) and not all(
        map(edges.same, before.inputs, after.inputs)
    ):
        yield Change(stage, "inputs", after.name, before.args, after.args)


def _type_changes(stage: str, before: Node, after: Node) -> Iterator[Change]:
    if before.type == after.type:
        return
    one, other = _TYPE.fullmatch(before.type), _TYPE.fullmatch(after.type)
    if one is None or other is None:
        yield Change(stage, "type", after.name, before.type or NONE, after.type or NONE)
        return
    for part in ("dtype", "shape", "stride", "device", "rest"):
        if one[part] != other[part]:
            kind = "type" if part == "rest" else part
            yield Change(stage, kind, after.name, one[part] or NONE, other[part] or NONE)


def _tag_changes(
    stage: str, before: Node, after: Node, same_ids: set[tuple[_Id, _Id]]
) -> Iterator[Change]:
    if before.tags == after.tags:
        return
    one, other = dict(before.tags), dict(after.tags)
    for key in dict.fromkeys([*one, *other]):
        was, now = one.get(key), other.get(key)
        if was == now or key == REGION:
            continue
        if key == AC_GRAPH and (
            (_checkpoint(before), _checkpoint(after)) in same_ids or before.piece != after.piece
        ):
            continue
        if key == GRADIENT_ACCUMULATION:
            what = after.type or "value"
            yield Change(
                stage,
                key,
                after.name,
                what if was is not None else "",
                what if now is not None else "",
            )
        else:
            kind = key if key in {RECOMPUTE, AC_GRAPH} else "tag"
            prefix = "" if key == RECOMPUTE else f"{key}: "
            yield Change(
                stage,
                kind,
                after.name,
                prefix + (NONE if was is None else was),
                prefix + (NONE if now is None else now),
            )


_Id = tuple[str, str | None]


def _checkpoint(node: Node) -> _Id:
    """Return the checkpointed call that a node is of; every text counts them anew."""
    return node.piece, node.tag(AC_GRAPH)


def _renumbered(pairs: Sequence[tuple[_Id, _Id]]) -> set[tuple[_Id, _Id]]:
    """Return pairs of ids where each has become exactly the other, and that from no third.

    Only then is it the same checkpointed call under another number.
    """
    seen = {(was, now) for was, now in pairs if was[1] is not None and now[1] is not None}
    old = Counter(was for was, _ in seen)
    new = Counter(now for _, now in seen)
    return {(was, now) for was, now in seen if old[was] == 1 and new[now] == 1}


def _group_changes(
    stage: str,
    kind: str,
    pairs: Sequence[tuple[Node, Node, bool]],
    removed: Sequence[Node],
    added: Sequence[Node],
    group: Callable[[Node], str],
) -> Iterator[Change]:
    """List what became of groups of nodes: regions by their annotation, or compiled pieces.

    Groups are recognised by their members.  A piece under another name is the same piece (they are
    numbered in order); a region under another name is renamed.
    """
    moves = [(group(before), group(after)) for before, after, _ in pairs]
    flow = Counter(moves)
    old = [name for name in dict.fromkeys(before for before, _ in moves) if name]
    new = [name for name in dict.fromkeys(after for _, after in moves) if name]
    targets = {one: [other for other in new if flow[one, other]] for one in old}
    origins = {other: [one for one in old if flow[one, other]] for other in new}
    told: set[tuple[str, str]] = set()
    for one in old:
        if len(targets[one]) == 1 and origins[targets[one][0]] == [one]:
            told.add((one, targets[one][0]))
            if kind == "region" and targets[one][0] != one:
                yield Change(stage, kind, targets[one][0], one, targets[one][0])
    for one in old:
        parts = targets[one]
        if len(parts) > 1 and all(origins[other] == [one] for other in parts):
            yield Change(stage, kind, one, one, ", ".join(parts))
            told |= {(one, other) for other in parts}
    for other in new:
        parts = origins[other]
        if len(parts) > 1 and all(targets[one] == [other] for one in parts):
            yield Change(stage, kind, other, ", ".join(parts), other)
            told |= {(one, other) for one in parts}
    lone_old = {group(node) for node in removed} - {""} - set(old)
    lone_new = {group(node) for node in added} - {""} - set(new)
    for one in [*old, *sorted(lone_old)]:
        if not targets.get(one):
            yield Change(stage, kind, one, one, "")
            told.add((one, ""))
    for other in [*new, *sorted(lone_new)]:
        if not origins.get(other):
            yield Change(stage, kind, other, "", other)
            told.add(("", other))
    for move, (_, after, _) in zip(moves, pairs, strict=True):
        if move[0] != move[1] and move not in told:
            yield Change(stage, f"{kind} of", after.name, *move)


def _recomputed(
    stage: str,
    removed: Sequence[Node],
    added: Sequence[Node],
    pairs: Sequence[tuple[Node, Node, bool]],
) -> Iterator[Change]:
    """List which nodes of a backward graph are, or are no longer, copies of forward nodes."""
    if not stage.endswith("backward"):
        return

    def recomputed(node: Node) -> bool:
        return node.op == "call" and node.tag(RECOMPUTE) is not None

    yield from (
        Change(stage, "recomputed", n.name, "recomputed", "") for n in removed if recomputed(n)
    )
    yield from (
        Change(stage, "recomputed", n.name, "", "recomputed") for n in added if recomputed(n)
    )
    for before, after, _ in pairs:
        if recomputed(before) != recomputed(after):
            was = "recomputed" if recomputed(before) else ""
            yield Change(stage, "recomputed", after.name, was, "" if was else "recomputed")


def _order(stage: str, new: Sequence[Node], matching: Matching) -> Iterator[Change]:
    """List matched nodes that stand in another order: the fewest that explain it."""
    order = [j for j in matching.to_new if j >= 0]
    kept = {order[k] for k in longest_increasing(order)}
    for j in order:
        if j not in kept:
            yield Change(stage, "moved", new[j].name)


def _names_and_sources(stage: str, pairs: Sequence[tuple[Node, Node, bool]]) -> Iterator[Change]:
    for before, after, replaced in pairs:
        was, now = before.name, after.name
        # Names inside a compiled region follow from what is in it.
        inside = "/" in was or "/" in now
        if was != now and not replaced and not inside and before.op != "output":
            kind = "renumbered" if stem(was) == stem(now) else "renamed"
            yield Change(stage, kind, now, was, now)
        if before.source != after.source:
            yield Change(stage, "source", after.name, before.source, after.source)
