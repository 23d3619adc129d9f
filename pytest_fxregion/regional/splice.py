"""Put compiled pieces back.  In: a graph, its plan, its pieces and what calls each; out: a graph.

A region is one ``call_function`` node.  Its only result is the call itself, under the name and with
the metadata of the node whose value it is; several are ``getitem`` nodes that keep those.  So the
text of what uses them does not change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.fx import Graph, GraphModule, Node

from .calling import RegionalModule, codegen_for, hand_over_operands
from .scoop import Piece, is_held
from .symbols import SymbolSource
from .values import attribute_of


def splice(
    module: GraphModule,
    nodes: Sequence[Node],
    schedule: Sequence[int],
    pieces: Sequence[Piece],
    calls: Sequence[Callable[..., object]],
    names: Sequence[str],
    *,
    replaced: Mapping[str, GraphModule],
) -> GraphModule:
    """Make a graph module in which ``calls[k]`` stands for ``pieces[k]``.

    ``replaced``: attributes (subgraphs with regions of their own) to put in place of ``module``'s.
    """
    graph = Graph()
    new: dict[Node, Node] = {}
    read: dict[SymbolSource, Node] = {}
    held: dict[str, object] = {}
    inside = {node for piece in pieces for node in piece.nodes}
    for step in schedule:
        if step >= 0:
            node = nodes[step]
            if node.op in ("get_attr", "call_module"):
                target = str(node.target)
                if is_held(node, module) and node.users.keys() <= inside:
                    continue
                held[target] = replaced.get(target) or attribute_of(module, target)
            new[node] = graph.node_copy(node, new.__getitem__)
            continue
        piece, call, name = pieces[~step], calls[~step], names[~step]
        args = [new[node] for node in piece.operands]
        args += [_read_symbol(graph, source, new, read) for source in piece.symbols]
        if len(piece.results) == 1:
            (node,) = piece.results
            new[node] = graph.create_node("call_function", call, tuple(args), {}, node.name)
            new[node].meta = dict(node.meta)
            continue
        called = graph.create_node("call_function", call, tuple(args), {}, name)
        called.meta = _call_metadata(piece)
        for position, node in enumerate(piece.results):
            item = graph.create_node(
                "call_function", operator.getitem, (called, position), {}, node.name
            )
            item.meta = dict(node.meta)
            new[node] = item
    graph.set_codegen(codegen_for(module.graph))
    hand_over_operands(graph)
    spliced = RegionalModule(held, graph, class_name=type(module).__name__)
    spliced.meta = dict(module.meta)
    spliced.training = module.training
    return spliced


def _read_symbol(
    graph: Graph, source: SymbolSource, new: Mapping[Node, Node], read: dict[SymbolSource, Node]
) -> Node:
    """Return the node that gives a symbol's number, made at its first use."""
    if source.dim is None:
        return new[source.node]
    if source not in read:
        node = graph.create_node(
            "call_function",
            torch.ops.aten.sym_size.int,
            (new[source.node], source.dim),
            {},
            "sym_size_int",
        )
        node.meta["val"] = source.value
        read[source] = node
    return read[source]


def _call_metadata(piece: Piece) -> dict[str, object]:
    """A call of several results has their values, and the tags that all of its nodes share."""
    first: Mapping[str, object] = piece.nodes[0].meta
    shared = {
        key: first[key]
        for key in ("custom", "partitioner_tag", "autograd_backward")
        if key in first and all(node.meta.get(key) == first[key] for node in piece.nodes)
    }
    traces = [node.meta["stack_trace"] for node in piece.nodes if "stack_trace" in node.meta]
    source = {"stack_trace": traces[0]} if traces else {}
    return {"val": tuple(node.meta.get("val") for node in piece.results), **source, **shared}
