"""Two graphs with their matching in, a list of :class:`Change` out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.edges import Edges, reordered_terms, returned, rewired
from pytest_fxregion.snapshots.graph import (
    AC_GRAPH,
    GRADIENT_ACCUMULATION,
    HOLE,
    RECOMPUTE,
    REGION,
    Graph,
    Node,
)
from pytest_fxregion.snapshots.lines import longest_increasing
from pytest_fxregion.snapshots.matching import Matching, match, stem
from pytest_fxregion.snapshots.sizing import gives_only_its_size, same_layout

_TYPE = re.compile(
    r"(?P<dtype>\w+)(?P<shape>\[.*?\])(?P<stride>\[.*?\])?(?P<device>\S*)(?P<rest>.*)"
)

NONE = "none"
NO_REGION = "none"  # the tag of a node that was taken out of a region
_LONGEST_CODE = 60


@dataclass(frozen=True)
class Change:
    """One thing that is different.

    Attributes:
        stage: ``joint``, ``forward``, ``graph 1: backward``, ...
        kind: what sort of thing: ``added``, ``removed``, ``replaced``, ``arguments``, ``inputs``,
            ``order`` (of operands or terms), ``outputs``, ``signature`` (order or form of inputs
            or outputs), ``dtype``, ``shape``, ``stride``, ``device``, ``type``, ``checkpointed``
            (or no longer), ``recompute``, ``ac_graph_id``, ``gradient accumulation``, ``region``
            (annotation), ``piece`` (compiled region), ``region of`` and ``piece of`` a node,
            ``tag``, ``saved``, ``recomputed``, ``moved``, ``renamed``, ``renumbered``, ``source``,
            ``section``, ``subgraph``, ``graphs`` (their number), ``lines`` (of a graph, that are
            no nodes), ``text`` (that is no graph).
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


def compare_graphs(
    stage: str, old: Graph, new: Graph, known: Mapping[str, str] | None = None
) -> GraphComparison:
    """List what changed between two graphs of one stage.

    ``known`` are names of old nodes, and of what each is now, from the stages before.
    """
    known = known or {}
    matching = match(old.nodes, new.nodes, known)
    pairs = [
        (old.nodes[i], new.nodes[j], i in matching.replaced)
        for i, j in enumerate(matching.to_new)
        if j >= 0
    ]
    names = {before.name: after.name for before, after, _ in pairs}
    reordered = list(reordered_terms(old.nodes, new.nodes, names))
    steps = {name for each in reordered for name in each.old_steps}
    new_steps = {name for each in reordered for name in each.new_steps}
    removed = [n for n, j in zip(old.nodes, matching.to_new, strict=True) if j < 0]
    added = [n for n, i in zip(new.nodes, matching.to_old, strict=True) if i < 0]
    # Steps of a sum in another order are as many as before, and of the same types and tags.
    removed = [node for node in removed if node.name not in steps]
    added = [node for node in added if node.name not in new_steps]
    found: list[Change] = []
    found += (_lone(stage, "removed", node, before=operation(node)) for node in removed)
    found += (_lone(stage, "added", node, after=operation(node)) for node in added)
    found += (Change(stage, "order", each.name, each.before, each.after) for each in reordered)
    edges = Edges(names, removed, added)
    new_nodes = {node.name: node for node in new.nodes}
    for before, after, replaced in pairs:
        found += _operation_changes(stage, before, after, replaced, edges)
        if not (before.name in steps and after.name in new_steps):
            found += _input_changes(stage, before, after, edges, new_nodes)
        found += _type_changes(stage, before, after)
    same_ids = _renumbered([(_checkpoint(a), _checkpoint(b)) for a, b, _ in pairs])
    for before, after, _ in pairs:
        found += _tag_changes(stage, before, after, same_ids)
    found += _accumulations(stage, old, new, pairs, removed, added)
    found += _group_changes(stage, "region", pairs, removed, added, _region)
    found += _group_changes(stage, "piece", pairs, removed, added, lambda n: n.piece)
    found += _recomputed(stage, removed, added, pairs)
    found += _order(stage, new.nodes, matching)
    found += _names_and_sources(stage, pairs, known)
    return GraphComparison(tuple(found), names)


def operation(node: Node) -> str:
    """Return what a node does, for a person: ``aten.mul.Tensor``."""
    return node.target.removeprefix("torch.ops.")


def _lone(stage: str, kind: str, node: Node, *, before: str = "", after: str = "") -> Change:
    if node.op == "placeholder":
        before, after = before and f"input {node.type}", after and f"input {node.type}"
    return Change(stage, kind, node.name, before, after)


def _operation_changes(
    stage: str, before: Node, after: Node, replaced: bool, edges: Edges
) -> Iterator[Change]:
    if replaced:
        yield Change(stage, "replaced", after.name, operation(before), operation(after))
    elif (
        before.literal != after.literal
        and before.op == "call"
        and not gives_only_its_size(before, after)
    ):
        was = _arguments(before, [edges.now(name) for name in before.inputs])
        yield Change(stage, "arguments", after.name, was, _arguments(after, after.inputs))


def _arguments(node: Node, inputs: Sequence[str]) -> str:
    """Return a call's arguments, with names that are known outside of its region."""
    parts = node.literal.split(HOLE)
    if len(parts) != len(inputs) + 1:  # a string among them has the mark
        return node.args
    names = (name.rpartition("/")[2] for name in inputs)
    return "".join([part + next(names, "") for part in parts])


def _input_changes(
    stage: str, before: Node, after: Node, edges: Edges, nodes: Mapping[str, Node]
) -> Iterator[Change]:
    if after.op == "output":
        outputs = returned(before, after, edges)
        if outputs is not None:
            yield from (Change(stage, "outputs", name, "output", "") for name in outputs.before)
            yield from (Change(stage, "outputs", name, "", "output") for name in outputs.after)
            if not outputs.before and not outputs.after:
                yield Change(stage, "signature", "outputs")
        return
    inputs = rewired(before, after, edges)
    if inputs is not None:
        kind = "order" if inputs.only_order else "inputs"
        was, now = inputs.before, inputs.after
        if kind == "inputs":
            now = tuple(_with_meaning(name, nodes) for name in now)
        yield Change(stage, kind, after.name, "; ".join(was), "; ".join(now))


def _with_meaning(name: str, nodes: Mapping[str, Node]) -> str:
    """Return a name and what it stands for: ``t = t(primals_1)``."""
    node = nodes.get(name)
    if node is None or node.op != "call":
        return name
    parts = operation(node).split(".")
    short = parts[1] if len(parts) == 3 else parts[-1]
    meaning = f"{name} = {short}({_arguments(node, node.inputs)})"
    return meaning if len(meaning) <= _LONGEST_CODE else name


def _type_changes(stage: str, before: Node, after: Node) -> Iterator[Change]:
    if before.type == after.type:
        return
    one, other = _TYPE.fullmatch(before.type), _TYPE.fullmatch(after.type)
    if one is None or other is None:
        yield Change(stage, "type", after.name, before.type or NONE, after.type or NONE)
        return
    follows = one["shape"] != other["shape"] and same_layout(
        (one["shape"], one["stride"] or ""), (other["shape"], other["stride"] or "")
    )
    for part in ("dtype", "shape", "stride", "device", "rest"):
        if one[part] != other[part] and not (part == "stride" and follows):
            kind = "type" if part == "rest" else part
            yield Change(stage, kind, after.name, one[part] or NONE, other[part] or NONE)


def _tag_changes(
    stage: str, before: Node, after: Node, same_ids: set[tuple[_Id, _Id]]
) -> Iterator[Change]:
    if before.tags == after.tags:
        return
    one, other = dict(before.tags), dict(after.tags)
    skipped = {GRADIENT_ACCUMULATION}
    for tags, without in ((one, other), (other, one)):
        if AC_GRAPH in tags and AC_GRAPH not in without and RECOMPUTE not in without:
            # One fact, though it is two tags.
            policy = tags.get(RECOMPUTE, NONE)
            was, now = (policy, "") if tags is one else ("", policy)
            yield Change(stage, "checkpointed", after.name, was, now)
            skipped |= {AC_GRAPH, RECOMPUTE}
    for key in dict.fromkeys([*one, *other]):
        tag, new_tag = one.get(key), other.get(key)
        if tag == new_tag or key in skipped:
            continue
        if key == REGION and {tag, new_tag} != {None, NO_REGION}:
            continue  # told of the whole region
        if key == AC_GRAPH and (
            (_checkpoint(before), _checkpoint(after)) in same_ids or before.piece != after.piece
        ):
            continue
        kind = key if key in {RECOMPUTE, AC_GRAPH} else "tag"
        prefix = "" if key == RECOMPUTE else f"{key}: "
        yield Change(
            stage,
            kind,
            after.name,
            prefix + (NONE if tag is None else tag),
            prefix + (NONE if new_tag is None else new_tag),
        )


def _accumulations(
    stage: str,
    old: Graph,
    new: Graph,
    pairs: Sequence[tuple[Node, Node, bool]],
    removed: Sequence[Node],
    added: Sequence[Node],
) -> Iterator[Change]:
    """List gradient accumulations that appeared or vanished, with the gradients they are of."""
    gone = [(node, node.name) for node in removed]
    fresh = [(node, node.name) for node in added]
    for before, after, _ in pairs:
        if (before.tag(GRADIENT_ACCUMULATION) is None) != (
            after.tag(GRADIENT_ACCUMULATION) is None
        ):
            gone.append((before, after.name))
            fresh.append((after, after.name))
    for graph, found in ((old, gone), (new, fresh)):
        tagged = [pair for pair in found if pair[0].tag(GRADIENT_ACCUMULATION) is not None]
        nodes = {node.name: node for node in graph.nodes} if tagged else {}
        for node, name in tagged:
            what = _sum(node, nodes)
            was, now = (what, "") if graph is old else ("", what)
            yield Change(stage, GRADIENT_ACCUMULATION, name, was, now)


def _sum(node: Node, nodes: Mapping[str, Node]) -> str:
    """Return a sum in words: ``f32[8][1]cuda:0 = mm_1 (from `h = x @ w`) + sin (from ...)``."""
    sources = [nodes[name].source if name in nodes else "" for name in node.inputs]
    origins = [f" (from `{code(source)}`)" if source else "" for source in sources]
    if len(set(origins)) == 1:
        origins = ["" for _ in origins[1:]] + origins[:1]
    names = (name.rpartition("/")[2] for name in node.inputs)
    return f"{node.type} = {' + '.join(map(''.join, zip(names, origins, strict=True)))}"


def code(source: str) -> str:
    """Return the code of a source comment, cut if it is long."""
    text = source.partition(": ")[2] or source
    return text if len(text) <= _LONGEST_CODE else f"{text[: _LONGEST_CODE - 1]}…"


def _region(node: Node) -> str:
    """Return the region that a node is annotated with; empty if it is in none."""
    region = node.tag(REGION)
    return "" if region is None or region == NO_REGION else region


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
    gone = [one for one in [*old, *sorted(lone_old)] if not targets.get(one)]
    fresh = [other for other in [*new, *sorted(lone_new)] if not origins.get(other)]
    for one in gone:
        if one not in fresh:  # a group with one name whose members are all others is still there
            yield Change(stage, kind, one, one, "")
        told.add((one, ""))
    for other in fresh:
        if other not in gone:
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
    moved = [new[j] for j in order if j not in kept]
    if any(node.op == "placeholder" for node in moved):
        yield Change(stage, "signature", "inputs")
    yield from (Change(stage, "moved", node.name) for node in moved if node.op != "placeholder")


def _names_and_sources(
    stage: str, pairs: Sequence[tuple[Node, Node, bool]], known: Mapping[str, str]
) -> Iterator[Change]:
    for before, after, replaced in pairs:
        was, now = before.name, after.name
        # Names inside a compiled region follow from what is in it.
        inside = "/" in was or "/" in now
        if was != now and not replaced and not inside and before.op != "output":
            kind = "renumbered" if stem(was) == stem(now) else "renamed"
            if kind == "renumbered" or known.get(was) != now:  # is told of the stage before
                yield Change(stage, kind, now, was, now)
        if before.source != after.source:
            yield Change(stage, "source", after.name, before.source, after.source)
