"""Cut pieces out of a graph.  In: a graph and a plan; out: one self-contained body per piece.

A body is a flat graph: its placeholders are the piece's operands in order of first use, its output
is a tuple of the values that are used outside.  What is not data goes with the nodes that need it:
subgraphs of higher-order operators and other attributes are held by the body; the symbols of an
operand's size expressions become operands if no operand has them as a plain size.  Tensor
attributes are operands: an artifact must not hold a copy of a parameter that an optimizer writes
to, and layers that differ only in their weights stay equal.

Names are canonical, made from the operators alone: Inductor's cache key holds names, so that equal
pieces of different layers, graphs and models would not be equal to it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from pytest_fxregion._torch.graphs import LazyGraphModule
from pytest_fxregion._torch.operators import OpOverload

from .symbols import SymbolSource, free_symbols_of, plain_symbols_of, symbol_sources
from .values import attribute_of


@dataclass(frozen=True)
class Piece:
    """One piece, cut out.

    ``operands``: the outer nodes whose values the body takes, followed by one ``symbols`` entry
    for each further symbol.  ``results``: the outer nodes whose values it gives.
    """

    nodes: tuple[Node, ...]
    operands: tuple[Node, ...]
    symbols: tuple[SymbolSource, ...]
    results: tuple[Node, ...]
    body: GraphModule


def scoop(
    module: GraphModule,
    nodes: Sequence[Node],
    pieces: Sequence[Sequence[int]],
    values: Callable[[Node], object],
) -> list[Piece]:
    """Cut each piece's nodes out into a body; ``module`` itself stays as it is.

    ``values``: what a node computes (a fake tensor, a symbolic number), None where unknown.
    A piece of which nothing is used outside, and that does nothing else, has no results.
    """
    home: dict[Node, int] = {nodes[i]: k for k, piece in enumerate(pieces) for i in piece}
    members = [tuple(nodes[i] for i in piece) for piece in pieces]
    operands = [_operands(own, k, home, module) for k, own in enumerate(members)]
    missing = [_missing_symbols(taken, values) for taken in operands]
    sources = symbol_sources(nodes, values) if any(missing) else {}
    symbols = [tuple(sources[s] for s in wanted if s in sources) for wanted in missing]
    wanted_elsewhere = {source.node for taken in symbols for source in taken}
    bodies = []
    for k, own in enumerate(members):
        results = tuple(
            node
            for node in own
            if node in wanted_elsewhere or any(home.get(user) != k for user in node.users)
        )
        body = _body(module, own, operands[k], symbols[k], results, values)
        bodies.append(Piece(own, tuple(operands[k]), symbols[k], results, body))
    return bodies


def _operands(
    own: Sequence[Node], k: int, home: Mapping[Node, int], module: GraphModule
) -> list[Node]:
    """List the values from outside that a piece needs, in order of first use."""
    taken: dict[Node, None] = {}
    for node in own:
        for source in node.all_input_nodes:
            if home.get(source) != k and not is_held(source, module):
                taken[source] = None
    return list(taken)


def is_held(node: Node, module: GraphModule) -> bool:
    """Whether bodies hold the node's value themselves: an attribute that is not a tensor."""
    return node.op == "get_attr" and not isinstance(
        attribute_of(module, str(node.target)), torch.Tensor
    )


def _missing_symbols(
    operands: Sequence[Node], values: Callable[[Node], object]
) -> tuple[object, ...]:
    """Symbols of the operands' sizes that no operand has as a plain size, sorted by name."""
    wanted: set[object] = set()
    given: set[object] = set()
    for node in operands:
        value = values(node)
        wanted |= free_symbols_of(value)
        given |= plain_symbols_of(value)
    return tuple(sorted(wanted - given, key=str))


def _body(
    module: GraphModule,
    own: Sequence[Node],
    operands: Sequence[Node],
    symbols: Sequence[SymbolSource],
    results: Sequence[Node],
    values: Callable[[Node], object],
) -> GraphModule:
    graph = Graph()
    inside: dict[Node, Node] = {}
    held: dict[str, object] = {}
    names: dict[str, str] = {}
    for i, node in enumerate(operands):
        placeholder = graph.placeholder(f"arg{i}")
        placeholder.meta["val"] = values(node)
        inside[node] = placeholder
    for i, source in enumerate(symbols, len(operands)):
        graph.placeholder(f"arg{i}").meta["val"] = source.value

    def local(node: Node) -> Node:
        copied = inside.get(node)
        if copied is None:  # an attribute that the body holds
            target = str(node.target)
            if target not in names:
                names[target] = f"attr{len(names)}"
                held[names[target]] = attribute_of(module, target)
            copied = inside[node] = graph.get_attr(names[target])
            copied.meta = dict(node.meta)
        return copied

    for node in own:
        args = torch.fx.map_arg(node.args, local)
        kwargs = torch.fx.map_arg(node.kwargs, local)
        copied = graph.create_node(node.op, node.target, args, kwargs, _canonical_name(node))
        copied.meta = dict(node.meta)
        if _binds_what_it_was(node):
            del copied.meta["unbacked_bindings"]
        inside[node] = copied
    graph.output(tuple(inside[node] for node in results))
    return LazyGraphModule(held, graph, class_name="Region")


def _binds_what_it_was(node: Node) -> bool:
    """Whether a tensor is said to be a symbol: what torch leaves where it made ``item()`` one.

    (``tensorify_python_scalars``; whoever traces the body again would look for the symbol.)
    """
    paths = (node.meta.get("unbacked_bindings") or {}).values()
    return () in paths and isinstance(node.meta.get("val"), torch.Tensor)


_OPERATOR_NAMES: dict[OpOverload, str] = {}


def _canonical_name(node: Node) -> str:
    target = node.target
    if isinstance(target, OpOverload):
        if target not in _OPERATOR_NAMES:
            _OPERATOR_NAMES[target] = target.name().split("::")[-1].split(".")[0]
        return _OPERATOR_NAMES[target]
    return str(getattr(target, "__name__", node.op))
