"""Results with the strides that the graph promises.  In: a body and its artifact; out: a new body.

Inductor keeps the strides of a result exactly, but of a result that is a view only their *order*:
the buffer under it may get another layout than in eager mode, and the view is then copied into a
dense tensor.  What follows in the graph was traced with the strides of ``meta["val"]``, and a
compiled region asserts those of its operands.  The buffer under an ``as_strided`` keeps its own
strides, so a body that takes such a result that way makes what eager mode makes, without a copy.
(pytorch 2.13, ``torch/_inductor/graph.py``, ``GraphLowering.run_node``.)

Strides that only running would tell, as of what ``nonzero`` gives, Inductor does not keep at all.
There the buffer's elements are written, each to its place, into memory that has one dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard

import torch
from torch.fx import Graph, GraphModule, Node

from pytest_fxregion._torch.graphs import LazyGraphModule
from pytest_fxregion._torch.operators import OpOverload
from pytest_fxregion._torch.symbols import is_known_equal, size_hint, written_number
from pytest_fxregion._torch.tensors import is_plain_tensor, storage_key

from .symbols import free_symbols_of, symbol_sources

_aten = torch.ops.aten

Strides = Sequence[int | torch.SymInt] | None


def displaced_results(body: GraphModule, strides: Sequence[Strides] | None) -> list[Node]:
    """Return the results whose compiled ``strides`` may differ from those of their values.

    ``strides``: of each result, None where only running tells them, or not a tensor.  Views of
    operands are left out, since AOTAutograd makes them from the operand itself.  None at all, or
    not one for each result, as where the compiled code gives more than the results: nothing is
    known.
    """
    results = results_of(body)
    if strides is None or len(strides) != len(results):
        return []
    operands = {
        key
        for node in body.graph.find_nodes(op="placeholder")
        for key in storage_key(node.meta.get("val"))
    }
    return [
        node
        for node, real in zip(results, strides, strict=True)
        if _is_plain(value := node.meta.get("val"))
        and operands.isdisjoint(storage_key(value))
        and not (_has_known_strides(value) if real is None else _has_strides(value, real))
    ]


def results_of(body: GraphModule) -> list[Node]:
    """Return the nodes whose values a body gives, in order."""
    (output,) = body.graph.find_nodes(op="output")
    return list(output.args[0])


def with_strides_kept(body: GraphModule, displaced: Collection[Node]) -> GraphModule:
    """Copy a body so that its ``displaced`` results get the strides of their values."""
    graph = Graph()
    new: dict[Node, Node] = {}
    bases: dict[tuple[int, ...], Node] = {}
    for node in body.graph.nodes:
        if node.op == "output":
            results = tuple(
                _restrided(graph, node, new, bases) if node in displaced else new[node]
                for node in results_of(body)
            )
            graph.output(results)
            continue
        new[node] = graph.node_copy(node, new.__getitem__)
        if node.op != "placeholder" and _is_plain(node.meta.get("val")):
            bases.setdefault(storage_key(node.meta["val"]), node)
    return LazyGraphModule(body, graph, class_name="Region")


def _is_plain(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and is_plain_tensor(value)


def _has_strides(value: torch.Tensor, real: Sequence[int | torch.SymInt]) -> bool:
    """Whether the strides agree wherever they matter: not where there is one element or none."""
    if any(size == 0 for size in value.shape if isinstance(size, int)):
        return True
    wanted = zip(value.shape, value.stride(), real, strict=True)
    return all(
        is_known_equal(a, b) for size, a, b in wanted if not (isinstance(size, int) and size == 1)
    )


def _has_known_strides(value: torch.Tensor) -> bool:
    """Whether the strides are numbers in the traced call, and so kept by Inductor."""
    return all(size_hint(stride) != -1 for stride in value.stride())


def _is_dense(value: torch.Tensor) -> bool:
    """Whether the value is known to fill its memory, in some order of its dimensions."""
    left = set(range(value.dim()))
    steps: list[int | torch.SymInt] = [1]
    while left:
        following = next(
            (d for d in left if any(is_known_equal(value.stride(d), step) for step in steps)), None
        )
        if following is None:
            return all(is_known_equal(value.shape[d], 1) for d in left)
        left.remove(following)
        size = value.shape[following]
        # Most operations give no stride of 0 to what has no elements; `nonzero` does.
        steps = [each * step for step in steps for each in (size, torch.sym_max(size, 1))]
    return True


def _restrided(
    graph: Graph, node: Node, new: Mapping[Node, Node], bases: Mapping[tuple[int, ...], Node]
) -> Node:
    """Write the result as ``as_strided`` of the buffer that it is a view of, else as a copy."""
    value = node.meta["val"]
    base = bases.get(storage_key(value), node)
    whole = base.meta["val"]
    sizes, steps = _layout(graph, new[node], value)
    is_kept = _has_known_strides(whole)
    as_its_base = whole.dtype == value.dtype and whole.is_conj() == value.is_conj()
    offset = _offset(graph, value.storage_offset(), new) if as_its_base else None
    if offset is not None and (base is not node if is_kept else _is_dense(whole)):
        buffer = new[base] if is_kept else _written_out(graph, new[base], whole)
        taken = graph.call_function(_aten.as_strided.default, (buffer, sizes, steps, offset))
    else:  # no buffer to lay out: a view of another type; a copy of a view would stay the view
        room = graph.call_function(
            _aten.empty_strided.default,
            (sizes, steps),
            {"dtype": value.dtype, "device": value.device},
        )
        dense = graph.call_function(_aten.clone.default, (new[node],))
        taken = graph.call_function(_aten.copy.default, (room, dense))
    # The symbols that a result brings into being are those of the node that it is a copy of.
    taken.meta = {key: item for key, item in node.meta.items() if key != "unbacked_bindings"}
    return taken


def _written_out(graph: Graph, tensor: Node, value: torch.Tensor) -> Node:
    """Write a copy in memory of one dimension, where the value's strides say."""
    sizes, steps = _layout(graph, tensor, value)
    count: int | Node = 1
    for size in sizes:  # room for one element at least: strides of what has none are written, too
        size = graph.call_function(torch.sym_max, (size, 1))
        count = graph.call_function(operator.mul, (count, size))
    room = graph.call_function(
        _aten.empty.memory_format, ([count],), {"dtype": value.dtype, "device": value.device}
    )
    return graph.call_function(_aten.as_strided_scatter.default, (room, tensor, sizes, steps, 0))


def _layout(graph: Graph, tensor: Node, value: torch.Tensor) -> list[list[int | Node]]:
    """Return sizes and strides: numbers, or where they are symbolic, nodes that read them."""
    asked = ((_aten.sym_size.int, value.shape), (_aten.sym_stride.int, value.stride()))
    return [
        [_number(graph, read, tensor, dim, number) for dim, number in enumerate(numbers)]
        for read, numbers in asked
    ]


def _number(graph: Graph, read: OpOverload, tensor: Node, dim: int, value: Any) -> Any:
    if isinstance(value, int):
        return value
    node = graph.call_function(read, (tensor, dim))
    node.meta["val"] = value
    return node


def _offset(
    graph: Graph, offset: int | torch.SymInt, new: Mapping[Node, Node]
) -> int | Node | None:
    """Return an offset or what computes it; None where its symbols can be read nowhere.

    Not by ``sym_storage_offset``: what AOTAutograd traces has none.
    """
    if isinstance(offset, int):
        return offset
    sources = symbol_sources(list(new), lambda node: node.meta.get("val"))
    symbols = {
        symbol: new[source.node]
        if source.dim is None
        else _number(graph, _aten.sym_size.int, new[source.node], source.dim, source.value)
        for symbol, source in sources.items()
    }
    if free_symbols_of(offset) - symbols.keys():
        return None
    return written_number(graph, offset, symbols)
