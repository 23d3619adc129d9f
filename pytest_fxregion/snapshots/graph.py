"""The text of a graph in, records of its nodes out; reads what ``readable`` writes.

The text is Python, but is read line by line with regular expressions: ``ast`` takes four times as
long, and drops the comments, in which the tags are.  Lines that are not understood are kept as they
are, so that nothing is lost to a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CLASS = re.compile(r"( *)class (\w+)\(.*\):")
_FORWARD = re.compile(r" *def forward\(self(?:, )?(.*)\)(?: -> .*)?:")
_STRING = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
_PARAMETER = re.compile(
    rf"(?P<name>\*{{0,2}}\w+)(?: ?: (?P<type>{_STRING}|[^,=]+?))?"
    rf"(?: = (?P<default>{_STRING}|[^,]+))?(?:, |,|$)"
)
_ASSIGNMENT = re.compile(rf"(\w+)(?: ?: ({_STRING}|[^=]+?))? = (.*)")
_UNPACKING = re.compile(r"((?:\w+, ?)+\w*) ?= (.*)")
_IN_PLACE = re.compile(rf"(\w+ \S+= .*);  (\w+)(?:: ({_STRING}))? = \w+")
_FREED = re.compile(r";  (?:\w+ = )+None$")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)")
_ITEM = re.compile(r"(\w+)\[(-?\d+)\]")
# A string, a keyword's name, or a name with its attributes: only the head of the last is a value.
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<keyword>\b[A-Za-z_]\w*(?= = ))"
    r"|(?P<dotted>(?<![\w.])[A-Za-z_][\w.]*)"
)
_CHECKPOINT = re.compile(r"ac_graph_id: (?P<id>.+?)(?: - (?P<policy>.*))?")

_COMMUTATIVE = frozenset(
    f"torch.ops.aten.{name}"
    for name in (
        *("add", "mul", "maximum", "minimum"),
        *("logical_and", "logical_or", "bitwise_and", "bitwise_or"),
    )
)

RECOMPUTE = "recompute"
AC_GRAPH = "ac_graph_id"
REGION = "region"
GRADIENT_ACCUMULATION = "gradient accumulation"
_ACCUMULATION_LINE = "gradient accumulation (is_gradient_acc)"
HOLE = "·"
_TWO_VALUES = f"{HOLE}, {HOLE}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph.

    Attributes:
        name: as the text has it.
        op: ``placeholder``, ``get_attr``, ``call`` or ``output``.
        target: what is called, ``torch.ops.aten.mul.Tensor``; of a method ``.sin``; of an operator
            the expression with its values left out, ``· + 1``.
        args: the arguments as the text has them.
        inputs: names of the nodes that it uses, in order, repeated if used twice.
        literal: ``args`` with each of ``inputs`` replaced by ``·``.
        type: ``f32[10][1]cuda:0``; empty if the text has none.
        tags: pairs of key and value in the text's order; ``gradient accumulation`` has no value,
            ``ac_graph_id: 0 - MUST_SAVE`` is two tags, ``ac_graph_id`` and ``recompute``.
        source: the source comment that applies, ``file.py in function: code``.
        piece: name of the compiled region whose body it was inlined from, if it was.

    """

    name: str
    op: str
    target: str
    args: str
    inputs: tuple[str, ...]
    literal: str
    type: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    source: str = ""
    piece: str = ""

    def tag(self, key: str) -> str | None:
        """Return the value of a tag, ``None`` if the node does not have it."""
        return next((value for name, value in self.tags if name == key), None)


@dataclass(frozen=True)
class Graph:
    """The nodes of one ``forward`` function, and the lines of it that are no nodes.

    ``path`` is the chain of classes that it is in: ``GraphModule.true_graph_0``.
    """

    path: str
    nodes: tuple[Node, ...]
    other: tuple[str, ...] = ()


def commutes(node: Node) -> bool:
    """Say whether a call is of two values whose order, and that of a chain of them, is free."""
    return node.literal == _TWO_VALUES and node.target.rpartition(".")[0] in _COMMUTATIVE


def is_graph_text(text: str) -> bool:
    """Say whether a section's text is that of a graph."""
    return _CLASS.match(text) is not None


def parse_graphs(text: str) -> tuple[Graph, ...]:
    """Read the text of a graph module: its own graph first, then those of the modules inside it."""
    open_classes: list[tuple[int, str, _Reader]] = []
    readers: list[tuple[str, _Reader]] = []
    for line in text.split("\n"):
        opened = _CLASS.fullmatch(line)
        if opened:
            indent = len(opened[1])
            while open_classes and open_classes[-1][0] >= indent:
                open_classes.pop()
            parent = open_classes[-1][1] + "." if open_classes else ""
            reader = _Reader()
            open_classes.append((indent, parent + opened[2], reader))
            readers.append((parent + opened[2], reader))
        elif open_classes and (stripped := line.strip()):
            # A module inside comes after the whole of its parent, so the last opened one is meant.
            open_classes[-1][2].read(stripped)
    return tuple(reader.graph(path) for path, reader in readers)


class _Reader:
    """Reads the lines of one class."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.other: list[str] = []
        self.known: dict[str, str] = {}  # a name in the text, and the node that it stands for
        self.tags: list[tuple[str, str]] = []
        self.parameter_tags: dict[str, list[tuple[str, str]]] = {}
        self.source = ""

    def read(self, line: str) -> None:
        if line[0] == "#":
            self._comment(line[2:])
        elif line.startswith("return ") or line == "return":
            self._add("output", "output", "output", line[7:], "")
        elif signature := _FORWARD.fullmatch(line):
            for parameter in _PARAMETER.finditer(signature[1]):
                default = parameter["default"] or ""
                self._add(
                    parameter["name"].lstrip("*"),
                    "placeholder",
                    "placeholder",
                    default,
                    _unquoted(parameter["type"] or ""),
                )
        else:
            self._statement(_FREED.sub("", line))

    def graph(self, path: str) -> Graph:
        nodes = [
            _with_tags(node, self.parameter_tags[node.name])
            if node.op == "placeholder" and node.name in self.parameter_tags
            else node
            for node in self.nodes
        ]
        return Graph(path, tuple(nodes), tuple(self.other))

    def _comment(self, text: str) -> None:
        if text.startswith("file: "):
            self.source = text[6:]
            return
        name, _, rest = text.partition(": ")
        owner = self.known.get(name)
        if owner is not None and rest and not self.tags and self.nodes[-1].op == "placeholder":
            # Tags of placeholders stand above the first statement, with the name in front; a name
            # that is also a tag's, "region: 0", has no second colon.
            tags = _tags(rest)
            if tags and (": " in rest or rest == _ACCUMULATION_LINE):
                self.parameter_tags.setdefault(owner, []).extend(tags)
                return
        tags = _tags(text)
        if tags:
            self.tags += tags
        else:
            self.other.append(f"# {text}")

    def _statement(self, line: str) -> None:
        if assigned := _ASSIGNMENT.fullmatch(line):
            name, annotation, expression = assigned.groups()
            if expression in self.known and annotation is None and name not in self.known:
                self.known[name] = self.known[expression]  # a parameter under another name
            else:
                self._expression(name, expression, _unquoted(annotation or ""))
        elif in_place := _IN_PLACE.fullmatch(line):
            statement, name, annotation = in_place.groups()
            self._expression(name, statement, _unquoted(annotation or ""))
        elif unpacked := _UNPACKING.fullmatch(line):
            names = [name.strip() for name in unpacked[1].split(",") if name.strip()]
            self._expression(names[0], unpacked[2], "")
            for name in names[1:]:
                self.known[name] = names[0]
        else:
            self.other.append(line)

    def _expression(self, name: str, expression: str, annotation: str) -> None:
        call = _CALL.fullmatch(expression)
        if call:
            head, _, method = call[1].partition(".")
            if head not in self.known:
                self._add(name, "call", call[1], call[2], annotation)
            else:
                args = f"{head}, {call[2]}" if call[2] else head
                self._add(name, "call", f".{method}", args, annotation)
        elif item := _ITEM.fullmatch(expression):
            self._add(name, "call", "getitem", f"{item[1]}, {item[2]}", annotation)
        elif expression.startswith("self."):
            self._add(name, "get_attr", expression, "", annotation)
        else:
            self._add(name, "call", "", expression, annotation)

    def _add(self, name: str, op: str, target: str, args: str, annotation: str) -> None:
        inputs, literal = self._references(args)
        if not target:
            target = literal
        tags, self.tags = tuple(self.tags), []
        source = "" if op in {"placeholder", "output"} else self.source
        self.nodes.append(Node(name, op, target, args, inputs, literal, annotation, tags, source))
        self.known[name] = name

    def _references(self, args: str) -> tuple[tuple[str, ...], str]:
        inputs: list[str] = []
        known = self.known

        def replace(token: re.Match[str]) -> str:
            if token.lastgroup != "dotted":
                return token[0]
            head, dot, rest = token[0].partition(".")
            owner = known.get(head)
            if owner is None:
                return token[0]
            inputs.append(owner)
            return f"{HOLE}{dot}{rest}"

        literal = _TOKEN.sub(replace, args)
        return tuple(inputs), literal


def _with_tags(node: Node, tags: Sequence[tuple[str, str]]) -> Node:
    return Node(
        node.name,
        node.op,
        node.target,
        node.args,
        node.inputs,
        node.literal,
        node.type,
        tuple(tags),
    )


def _tags(text: str) -> list[tuple[str, str]]:
    """Read a tag line, without its comment mark; empty if it is none."""
    if text == _ACCUMULATION_LINE:
        return [(GRADIENT_ACCUMULATION, "")]
    checkpoint = _CHECKPOINT.fullmatch(text)
    if checkpoint:
        policy = checkpoint["policy"]
        tags = [(AC_GRAPH, checkpoint["id"])]
        return [*tags, (RECOMPUTE, policy)] if policy is not None else tags
    key, colon, value = text.partition(": ")
    return [(key, value)] if colon else []


def _unquoted(annotation: str) -> str:
    if annotation[:1] in {'"', "'"}:
        return annotation[1:-1]
    return annotation
