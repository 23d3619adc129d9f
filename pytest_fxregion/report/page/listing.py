"""One stage's texts in, the rows of its listing out: nodes in order, regions opened in place.

The body of each compiled region stands where its call is, as in the comparison of snapshots
(:mod:`pytest_fxregion.snapshots.inlining`), so that values can be followed through it.  Columns are
lists of equal length, one entry for each node, and what repeats (types, chips, source lines) is in
tables: a graph of 2,000 nodes is some 150 KB of JSON.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pytest_fxregion.snapshots.graph import (
    AC_GRAPH,
    GRADIENT_ACCUMULATION,
    HOLE,
    RECOMPUTE,
    REGION,
    Graph,
    Node,
    parse_graphs,
)
from pytest_fxregion.snapshots.inlining import Inlined, inline_regions

_Value = TypeVar("_Value", bound=Hashable)

_RNG_STATE = "rng_state_output_"

NOT_A_REGION = "none"  # the tag of a node that was taken out of a region


@dataclass(frozen=True)
class Piece:
    """A compiled region: its call's name, what the engine says of it, and its body's text."""

    name: str
    kind: str
    body: str
    configs: str = ""
    sources: tuple[str, ...] = ()
    shared_with: str | None = None


@dataclass(frozen=True)
class Stage:
    """One graph at one stage, as text, and what the text alone does not say.

    ``saved`` has the size in bytes, as text, of each value that is kept for the backward, by name;
    ``recomputed`` the names of nodes outside of regions that the backward computes again.
    """

    name: str
    text: str
    pieces: tuple[Piece, ...] = ()
    saved: Mapping[str, str] = field(default_factory=dict)
    recomputed: frozenset[str] = frozenset()


class Labels:
    """Numbers the region labels of a test in order of appearance: each has one colour throughout.

    Labels are as tags write them: ``0``, ``'mlp'``.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, label: str) -> int:
        """Return the number of a label."""
        return self._numbers.setdefault(label, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def listing(stage: Stage, labels: Labels) -> dict[str, Any]:
    """Return the rows of a stage as columns and tables; :mod:`.region_graph` reads them too."""
    return _Listing(stage, labels).columns()


class _Listing:
    def __init__(self, stage: Stage, labels: Labels) -> None:
        self._stage = stage
        self._labels = labels
        self._types = _Table[str]()
        self._chips = _Table[tuple[tuple[str, str, str], ...]]()
        self._sources = _Table[str]()
        self._tags = _Table[tuple[tuple[str, str], ...]]()
        self._bands: list[dict[str, Any]] = []
        self._band_of: dict[object, int] = {}
        self._pieces = {piece.name: piece for piece in stage.pieces}
        self._compiled = stage.name != "joint"
        self._saved: Mapping[str, str] = {}

    def columns(self) -> dict[str, Any]:
        rows: dict[str, list[Any]] = {
            column: []
            for column in (
                *("name", "op", "target", "args", "inputs", "type"),
                *("chips", "tags", "source", "band", "graph"),
            )
        }
        bodies = {name: parse_graphs(piece.body) for name, piece in self._pieces.items()}
        first = {name: body[0] for name, body in bodies.items() if body}
        graphs = [
            inline_regions(graph, first)
            for text in (parse_graphs(self._stage.text), *(body[1:] for body in bodies.values()))
            for graph in text
        ]
        homes = self._homes(graphs[0]) if graphs else {}
        self._saved = {home: self._stage.saved[name] for name, home in homes.items()}
        for number, inlined in enumerate(graphs):
            self._add(rows, inlined.graph, number)
        places = {name: at for at, name in reversed(list(enumerate(rows["name"])))}
        return {
            "name": self._stage.name,
            "nodes": rows,
            "types": self._types.values,
            "chips": self._chips.values,
            "tags": self._tags.values,
            "sources": self._sources.values,
            "bands": self._bands,
            "graphs": [inlined.graph.path.partition(".")[2] for inlined in graphs],
            "saved": [
                {"name": name, "node": places[home], "size": self._stage.saved[name]}
                for name, home in homes.items()
            ],
        }

    def _homes(self, main: Inlined) -> dict[str, str]:
        """Return for each saved value the node that it is here; in a backward, the input."""
        backward = self._stage.name == "backward"
        here = {node.name for node in main.graph.nodes if not backward or node.op == "placeholder"}
        # A region's results that are one value are one node, under the first of their names.
        homes = {name: main.results.get(name, name) for name in self._stage.saved}
        lost = [name for name, home in homes.items() if home not in here]
        # The state of a random generator comes in under another name, several in order.
        states = [node.name for node in main.graph.nodes if node.name.startswith(_RNG_STATE)]
        if backward and len(lost) == len(states):
            homes.update(zip(lost, states, strict=True))
        return {name: home for name, home in homes.items() if home in here}

    def _add(self, rows: dict[str, list[Any]], graph: Graph, number: int) -> None:
        start = len(rows["name"])
        places = {node.name: start + at for at, node in enumerate(graph.nodes)}
        for node in graph.nodes:
            args, inputs = _arguments(node, places)
            band = self._band(node)
            rows["name"].append(node.name)
            rows["op"].append(node.op)
            rows["target"].append(node.target)
            rows["args"].append(args)
            rows["inputs"].append(inputs)
            rows["type"].append(self._types.place(node.type))
            rows["chips"].append(self._chips.place(tuple(self._chips_of(node, number, band))))
            rows["tags"].append(self._tags.place(node.tags))
            rows["source"].append(self._sources.place(node.source))
            rows["band"].append(band)
            rows["graph"].append(number)

    def _band(self, node: Node) -> int:
        """Return the number of the band that a node is in, -1 if it is in none."""
        label = node.tag(REGION)
        piece = self._pieces.get(node.piece or node.target)
        if piece is None:
            if self._compiled or label is None or label == NOT_A_REGION:
                return -1
            return self._open(label, {"region": label, "piece": "", "kind": "annotated"}, label)
        known = self._band_of.get(piece.name)
        if known is not None:
            return known
        band = {
            "region": label or "",
            "piece": piece.name,
            "kind": piece.kind,
            "configs": piece.configs,
            "sources": list(piece.sources),
            "shared_with": piece.shared_with,
        }
        return self._open(piece.name, band, label or "")

    def _open(self, key: object, band: dict[str, Any], label: str) -> int:
        if key not in self._band_of:
            self._band_of[key] = len(self._bands)
            self._bands.append({**band, "colour": self._labels.number(label)})
        return self._band_of[key]

    def _chips_of(self, node: Node, graph: int, band: int) -> Iterator[tuple[str, str, str]]:
        """Yield the kind, the text and the explanation of each chip of a node."""
        policy, checkpoint = node.tag(RECOMPUTE), node.tag(AC_GRAPH)
        if checkpoint is not None or policy is not None:
            number = "" if checkpoint is None else f" {checkpoint}"
            said = (
                f"checkpointed call{number}" if checkpoint is not None else "no checkpointed call"
            )
            yield "ac", f"AC{number} {policy or ''}".rstrip(), f"activation checkpointing: {said}"
        if node.tag(GRADIENT_ACCUMULATION) is not None:
            yield "sum", "gradient sum", "autograd adds two gradients of one value here"
        if graph == 0 and node.name in self._saved:
            size = self._saved[node.name]
            yield "saved", f"saved {size}", "handed from the forward to the backward"
        if graph == 0 and self._is_recomputed(node, band):
            yield "recomputed", "recomputed", "an operation of the forward, run again here"
        for key, value in node.tags:
            if key not in {RECOMPUTE, AC_GRAPH, GRADIENT_ACCUMULATION, REGION}:
                yield "tag", f"{key}: {value}", "annotation"

    def _is_recomputed(self, node: Node, band: int) -> bool:
        if node.op != "call":
            return False
        inside = band >= 0 and self._bands[band]["kind"] == "recompute"
        return inside or node.name in self._stage.recomputed


def _arguments(node: Node, places: Mapping[str, int]) -> tuple[str, list[int]]:
    """Return the arguments with a hole for each value, and the places of the values.

    Where they cannot be told apart (a text that has the mark for a hole in a string), the text
    stays as it is.
    """
    inputs = [places[name] for name in node.inputs if name in places]
    if len(inputs) != len(node.inputs) or node.literal.count(HOLE) != len(inputs):
        return node.args, inputs
    return node.literal, inputs


class _Table(Generic[_Value]):
    """Each different value once, in order of appearance."""

    def __init__(self) -> None:
        self.values: list[_Value] = []
        self._places: dict[_Value, int] = {}

    def place(self, value: _Value) -> int:
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(value)
        return self._places[value]
