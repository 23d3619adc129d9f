"""Results with the strides that the graph promises.  In: a body and its artifact; out: a new body.

Inductor keeps the strides of a result exactly, but of a result that is a view only their *order*:
the buffer under it may get another layout than in eager mode, and the view is then copied into a
dense tensor.  What follows in the graph was traced with the strides of ``meta["val"]``, and a
compiled region asserts those of its operands.  The buffer under an ``as_strided`` keeps its own
strides, so a body that takes such a result that way makes what eager mode makes, without a copy.
(pytorch 2.13, ``torch/_inductor/graph.py``, ``GraphLowering.run_node``.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeGuard

import torch
from torch.fx import Graph, GraphModule, Node

from pytest_fxregion._torch.graphs import LazyGraphModule
from pytest_fxregion._torch.operators import OpOverload
from pytest_fxregion._torch.symbols import is_known_equal
from pytest_fxregion._torch.tensors import is_plain_tensor, storage_key

_aten = torch.ops.aten

Strides = Sequence[int | torch.SymInt] | None


def displaced_results(body: GraphModule, strides: Sequence[Strides] | None) -> list[Node]:
    """Return the results whose compiled ``strides`` may differ from those of their values.

    ``strides``: of each result, None where unknown or not a tensor.  Views of operands are left
    out, since AOTAutograd makes them from the operand itself.  None at all, or not one for each
    result, as where the compiled code gives more than the results: nothing is known.
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
        if real is not None
        and _is_plain(value := node.meta.get("val"))
        and operands.isdisjoint(storage_key(value))
        and not _has_strides(value, real)
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
                _restrided(graph, node, new[node], bases, new) if node in displaced else new[node]
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


def _restrided(
    graph: Graph,
    node: Node,
    copied: Node,
    bases: dict[tuple[int, ...], Node],
    new: dict[Node, Node],
) -> Node:
    """Write the result as ``as_strided`` of the buffer that it is a view of, else as a copy."""
    value = node.meta["val"]
    sizes = [_number(graph, _aten.sym_size.int, copied, i, n) for i, n in enumerate(value.shape)]
    steps = [
        _number(graph, _aten.sym_stride.int, copied, i, n) for i, n in enumerate(value.stride())
    ]
    base = bases.get(storage_key(value), node)
    whole = base.meta["val"]
    if base is not node and whole.dtype == value.dtype and whole.is_conj() == value.is_conj():
        offset = value.storage_offset()
        if not isinstance(offset, int):
            offset = graph.call_function(_aten.sym_storage_offset.default, (copied,))
        taken = graph.call_function(_aten.as_strided.default, (new[base], sizes, steps, offset))
    else:  # no buffer to lay out: a view of another type; a copy of a view would stay the view
        room = graph.call_function(
            _aten.empty_strided.default,
            (sizes, steps),
            {"dtype": value.dtype, "device": value.device},
        )
        dense = graph.call_function(_aten.clone.default, (copied,))
        taken = graph.call_function(_aten.copy.default, (room, dense))
    taken.meta = dict(node.meta)
    return taken


def _number(graph: Graph, read: OpOverload, tensor: Node, dim: int, value: Any) -> Any:
    """Return a size or stride itself, or where it is symbolic, a node that reads it."""
    if isinstance(value, int):
        return value
    node = graph.call_function(read, (tensor, dim))
    node.meta["val"] = value
    return node
