"""What changed between two snapshot documents: first in words, then as a line diff.

Sections are paired by graph and stage.  The graph of a stage is compared with the bodies of its
compiled regions in their places (:mod:`.inlining`), node by node (:mod:`.matching`); what the
result means to a person is said by :mod:`.wording`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_fxregion.snapshots.changes import Change, compare_graphs
from pytest_fxregion.snapshots.document import Document, Section, write_document
from pytest_fxregion.snapshots.graph import (
    GRADIENT_ACCUMULATION,
    Graph,
    Node,
    is_graph_text,
    parse_graphs,
)
from pytest_fxregion.snapshots.inlining import Inlined, inline_regions
from pytest_fxregion.snapshots.lines import changed_blocks, unified
from pytest_fxregion.snapshots.matching import stem
from pytest_fxregion.snapshots.wording import summary_lines

_TITLE = re.compile(r"(?:graph (?P<graph>\d+): )?(?P<stage>[^:]+)(?:: (?P<part>.*))?")
_SAVED_PART = "saved for backward"
_SAVED = re.compile(r'(?P<name>\S+): "(?P<type>.*)"  (?P<size>.+) B')


@dataclass(frozen=True)
class Difference:
    """How two documents differ: ``summary`` in words, ``lines`` as a unified diff."""

    changes: tuple[Change, ...]
    summary: tuple[str, ...]
    lines: tuple[str, ...]

    def capped(self, limit: int, whole: str | None = None) -> list[str]:
        """Return the line diff, at most ``limit`` lines of it; what is left out is said.

        Args:
            limit: the number of lines.
            whole: where all of it can be read.

        """
        if len(self.lines) <= limit:
            return list(self.lines)
        left = len(self.lines) - limit
        where = f"; all of them in {whole}" if whole else ""
        return [*self.lines[:limit], f"... {left} more lines of this diff are left out{where}"]


def describe(old: Document, new: Document) -> Difference:
    """Compare two documents, first lines excepted."""
    changes = tuple(compare_documents(old, new))
    old_lines, new_lines = _lines(old), _lines(new)
    lines = tuple(unified(old_lines, new_lines, headings=_headings(old_lines)))
    summary = summary_lines(changes)
    if lines and not summary:
        summary = [
            "no node differs, only numbers of compiled regions, the order of their arguments, "
            "comments or free lines"
        ]
    return Difference(changes, tuple(summary), lines)


def _lines(document: Document) -> list[str]:
    return write_document(Document("", document.sections)).rstrip("\n").split("\n")


def _headings(lines: Sequence[str]) -> list[str]:
    """Return for each line of a document the title of its section."""
    headings: list[str] = []
    title = ""
    for line in lines:
        if line.startswith("# ==== ") and line.endswith(" ===="):
            title = line[7:-5]
        headings.append(title)
    return headings


def compare_documents(old: Document, new: Document) -> Iterator[Change]:
    """List what changed, stage by stage in the order of the new document."""
    before, after = _stages(old.sections), _stages(new.sections)
    several = any(graph for graph, _ in (*before, *after))
    by_graph: dict[int, list[Change]] = {}
    earlier: dict[int, _Earlier] = {}
    counts = [len({graph for graph, _ in stages}) for stages in (before, after)]
    if counts[0] != counts[1] and all(counts):
        yield Change("function", "graphs", "graphs", *map(str, counts))
    for key in dict.fromkeys([*after, *before]):
        graph, name = key
        label = f"graph {graph}: {name}" if several else name
        found = by_graph.setdefault(graph, [])
        if key not in before:
            found.append(Change(label, "section", label, "", "section"))
        elif key not in after:
            found.append(Change(label, "section", label, "section", ""))
        elif before[key] != after[key]:
            stages = before[key], after[key]
            found += _compare_stages(label, *stages, earlier.setdefault(graph, _Earlier()))
    for found in by_graph.values():
        yield from _each_once(found)


def _each_once(changes: Sequence[Change]) -> Iterator[Change]:
    """Leave out nodes that are gone or new for a reason that is told by itself.

    A value that is saved is an input of the backward; a recomputed operation is one of its nodes;
    a gradient accumulation is an addition.
    """
    told: set[tuple[str, str, bool]] = set()
    saved: set[tuple[str, bool]] = set()
    for change in changes:
        is_new = not change.before
        if change.kind == "saved" and not (change.before and change.after):
            saved.add((change.subject, is_new))
        elif change.kind in {"recomputed", GRADIENT_ACCUMULATION}:
            told.add((change.stage, change.subject, is_new))
    for change in changes:
        if change.kind in {"added", "removed"}:
            is_new = change.kind == "added"
            is_input = change.stage.endswith("backward") and (
                (change.before or change.after).startswith("input ")
            )
            if (change.stage, change.subject, is_new) in told:
                continue
            if is_input and (change.subject, is_new) in saved:
                continue
        yield change


@dataclass
class _Stage:
    """The sections of one stage of one graph."""

    text: str = ""
    saved: str = ""
    bodies: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """Parts that are no graphs, by title."""


def _stages(sections: Sequence[Section]) -> dict[tuple[int, str], _Stage]:
    stages: dict[tuple[int, str], _Stage] = {}
    for section in sections:
        title = _TITLE.fullmatch(section.title)
        graph, name, part = (
            (title["graph"], title["stage"], title["part"])
            if title
            else (
                None,
                section.title,
                None,
            )
        )
        stage = stages.setdefault((int(graph or 0), name), _Stage())
        if part is None:
            stage.text = section.text
        elif part == _SAVED_PART:
            stage.saved = section.text
        elif is_graph_text(section.text):
            stage.bodies.update((call, section.text) for call in part.split(", "))
        else:
            stage.texts[part] = section.text
    return stages


@dataclass
class _Earlier:
    """What the stages before have shown: a value has its name in all of them."""

    old: dict[str, Node] = field(default_factory=dict)
    new: dict[str, Node] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def known(self, old: Graph, new: Graph) -> dict[str, str]:
        """Return which old nodes are known to be which new ones."""
        new_nodes = {node.name: node for node in new.nodes}
        found: dict[str, str] = {}
        for node in old.nodes:
            twin = new_nodes.get(self.names.get(node.name, ""))
            if (
                twin is not None
                and node.op == twin.op
                and _is_same_value(node, self.old[node.name])
                and _is_same_value(twin, self.new[twin.name])
            ):
                found[node.name] = twin.name
        return found

    def add(self, old: Graph, new: Graph, names: Mapping[str, str]) -> None:
        """Note which old node is which new one."""
        for seen, graph in ((self.old, old), (self.new, new)):
            for node in graph.nodes:
                seen.setdefault(node.name, node)
        for name, now in names.items():
            if "/" not in name and "/" not in now:  # names inside compiled regions are their own
                self.names.setdefault(name, now)


def _is_same_value(node: Node, earlier: Node) -> bool:
    """Say whether a node is the one of an earlier stage that has its name."""
    same = node.op == "placeholder" or (node.op, node.target) == (earlier.op, earlier.target)
    return same and node.type == earlier.type


def _compare_stages(label: str, old: _Stage, new: _Stage, earlier: _Earlier) -> Iterator[Change]:
    for part in dict.fromkeys((*old.texts, *new.texts)):
        if old.texts.get(part) != new.texts.get(part):
            yield Change(f"{label}: {part}", "text", part)
    if not (is_graph_text(old.text) and is_graph_text(new.text)):
        if old.text != new.text:
            yield Change(label, "text", label)
        return
    before, after = parse_graphs(old.text), parse_graphs(new.text)
    bodies = [
        {call: parse_graphs(text) for call, text in stage.bodies.items()} for stage in (old, new)
    ]
    flat = [
        inline_regions(graphs[0], {call: body[0] for call, body in found.items()})
        for graphs, found in zip((before, after), bodies, strict=True)
    ]
    whole = flat[0].graph, flat[1].graph
    result = compare_graphs(label, *whole, earlier.known(*whole))
    earlier.add(*whole, result.names)
    saved = list(_compare_saved(label, old.saved, new.saved, _outer_names(result.names, *flat)))
    about_saved = {change.subject for change in saved}
    about_saved |= {result.names.get(name, name) for name in about_saved}
    for change in result.changes:
        # A value that is saved is an output of the forward graph; once is enough.
        if change.kind != "outputs" or change.subject not in about_saved:
            yield change
    yield from saved
    yield from _compare_bodies(label, bodies[0], bodies[1], flat)
    yield from _compare_subgraphs(label, before[1:], after[1:])
    inner = [[graph for body in found.values() for graph in body[1:]] for found in bodies]
    yield from _compare_subgraphs(label, inner[0], inner[1])
    if before[0].other != after[0].other:
        yield Change(label, "lines", label)


def _compare_bodies(
    label: str,
    old: Mapping[str, Sequence[Graph]],
    new: Mapping[str, Sequence[Graph]],
    flat: Sequence[Inlined],
) -> Iterator[Change]:
    """Compare, by name, the bodies that could not be put in the place of their calls."""
    inlined = {node.piece for side in flat for node in side.graph.nodes}
    for call in dict.fromkeys((*new, *old)):
        if call in inlined:
            continue
        if call in old and call in new:
            yield from compare_graphs(f"{label}: {call}", old[call][0], new[call][0]).changes
        else:
            was, now = ("section", "") if call in old else ("", "section")
            yield Change(label, "section", f"{label}: {call}", was, now)


def _compare_subgraphs(label: str, old: Sequence[Graph], new: Sequence[Graph]) -> Iterator[Change]:
    """Compare the bodies of higher-order operators: equal ones first, the rest by kind in order."""
    pairs: list[tuple[Graph, Graph]] = []
    lone_old: list[Graph] = []
    lone_new: list[Graph] = []
    shapes = [[_shape(graph) for graph in graphs] for graphs in (old, new)]
    for i1, i2, j1, j2 in changed_blocks(*shapes):
        rest = list(new[j1:j2])
        for graph in old[i1:i2]:
            twin = next((other for other in rest if stem(other.path) == stem(graph.path)), None)
            if twin is None:
                lone_old.append(graph)
            else:
                rest.remove(twin)
                pairs.append((graph, twin))
        lone_new += rest
    for before, after in pairs:
        inner = after.path.partition(".")[2]
        yield from compare_graphs(f"{label} ({inner})", before, after).changes
    for graph in lone_old:
        yield Change(label, "subgraph", graph.path.partition(".")[2], "subgraph", "")
    for graph in lone_new:
        yield Change(label, "subgraph", graph.path.partition(".")[2], "", "subgraph")


def _shape(graph: Graph) -> tuple[object, ...]:
    return tuple(
        (node.target, node.inputs, node.literal, node.type, node.tags) for node in graph.nodes
    )


def _compare_saved(label: str, old: str, new: str, names: Mapping[str, str]) -> Iterator[Change]:
    (before, free_before), (after, free_after) = _saved(old), _saved(new)
    kept = {names.get(name, name) for name in before}
    for name, held in before.items():
        now = names.get(name, name)
        if now not in after:
            yield Change(label, "saved", name, held, "")
        elif after[now] != held:
            yield Change(label, "saved", now, held, after[now])
    for name, held in after.items():
        if name not in kept:
            yield Change(label, "saved", name, "", held)
    if free_before != free_after:
        yield Change(f"{label}: {_SAVED_PART}", "text", _SAVED_PART)


def _saved(text: str) -> tuple[dict[str, str], list[str]]:
    """Return size and type of each saved value, ``40 B f32[10]``, and lines that say neither."""
    values: dict[str, str] = {}
    free: list[str] = []
    for line in text.split("\n"):
        entry = _SAVED.fullmatch(line)
        if entry:
            values[entry["name"]] = f"{entry['size']} B {entry['type']}"
        elif line:
            free.append(line)
    return values, free


def _outer_names(names: Mapping[str, str], old: Inlined, new: Inlined) -> dict[str, str]:
    """Return which name of the outer graph became which, through the results of its regions."""
    outer = {inner: name for name, inner in new.results.items()}
    found = {name: outer.get(now, now) for name, now in names.items()}
    for name, inner in old.results.items():
        if inner in names:
            found[name] = outer.get(names[inner], names[inner])
    return found
