"""Compute once what a graph computes twice in the same way and for the same region.

Comes in: a joint graph before it is partitioned, or the graph of an inference.  Goes out: the same
graph without the second of two equal nodes, and how many were taken away.

Two nodes are equal if operator, operands, constants and result's form are, and if both do nothing
but compute.  They are merged only where nothing that the user asked for would change:

- annotations are equal, to the last key: code of a region never comes from outside of it;
- both are of the forward or both of the backward, and neither is the engine's sum of gradients;
- checkpointing has the same plans for both (policy, checkpointed call, and whether other calls use
  the value): what is recomputed stays the same;
- nothing that they read is written to in between, and their own value is never written to;
- neither is handed out: two outputs that are equal are still two tensors.

In a region, views and what is made of constants alone stay as they are, though operations on equal
ones are equal: they cost nothing there, and one that is shared would tie the region's pieces to
each other and make the first of equal layers another than the rest.

One pass in graph order: linear in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import fx

from pytest_fxregion._torch.operators import OpOverload, global_state_switches
from pytest_fxregion.passes.metadata import SIDE
from pytest_fxregion.regional.annotation import AnnotationReader
from pytest_fxregion.regional.effects import (
    alias_classes,
    is_pure,
    may_alias,
    written_arguments,
)

# What they give is not determined by what they are given.
_UNINITIALISED = frozenset(
    f"aten::{name}"
    for name in (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize",
    )
)


class _NotComparableError(Exception):
    """An argument of which it is not known when another one is equal to it."""


def merge_common_subexpressions(graph_module: fx.GraphModule) -> int:
    """Merge equal nodes of the graph, in place; return how many there are fewer.

    Bodies of higher-order operators stay as they are.
    """
    graph = graph_module.graph
    nodes = list(graph.nodes)
    storages = _Storages(nodes)
    reader = AnnotationReader()
    first: dict[Hashable, fx.Node] = {}
    equal: dict[fx.Node, fx.Node] = {}
    constant: set[fx.Node] = set()
    kept_twice: list[fx.Node] = []
    epoch = 0
    for node in nodes:
        if node.op == "call_function" and constant.issuperset(node.all_input_nodes):
            constant.add(node)
        if node.target in global_state_switches:
            epoch += 1  # from here on the same operator may do something else
        storages.run(node)
        if not _may_be_merged(node) or storages.is_fixed(node):
            continue
        try:
            key = (epoch, storages.state_of(node), _call_key(node, equal), _plan_key(node, reader))
        except _NotComparableError:
            continue
        kept = first.setdefault(key, node)
        if kept is node:
            continue
        equal[node] = kept
        if reader.read(node) is not None and (node in constant or _is_view(node)):
            kept_twice.append(node)
    stay = set(kept_twice)
    for node, kept in equal.items():
        if node not in stay:
            node.replace_all_uses_with(kept)
            graph.erase_node(node)
    for node in reversed(kept_twice):
        if not node.users:
            graph.erase_node(node)
    return len(nodes) - len(graph.nodes)


class _Storages:
    """What has been written to so far, and what must stay a tensor of its own."""

    def __init__(self, nodes: Sequence[fx.Node]) -> None:
        self._index = {node: i for i, node in enumerate(nodes)}
        self._class = alias_classes(nodes, self._index)
        written = [argument for node in nodes for argument in written_arguments(node)]
        handed_out = nodes[-1].all_input_nodes if nodes else []
        self._fixed = {self._class_of(node) for node in (*written, *handed_out)}
        self._writes = Counter[int]()
        self._any_write = bool(written)

    def run(self, node: fx.Node) -> None:
        """Note what the node writes to."""
        if self._any_write:
            for argument in written_arguments(node):
                self._writes[self._class_of(argument)] += 1

    def is_fixed(self, node: fx.Node) -> bool:
        """Whether the node's value is written to or handed out, or shares memory with one."""
        return self._class_of(node) in self._fixed

    def state_of(self, node: fx.Node) -> Hashable:
        """Tell apart what the node's operands hold now from what they held earlier."""
        return tuple(self._writes[self._class_of(source)] for source in node.all_input_nodes)

    def _class_of(self, node: fx.Node) -> int:
        return self._class[self._index[node]]


def _may_be_merged(node: fx.Node) -> bool:
    if not node.users or not is_pure(node) or node.meta.get("is_gradient_acc"):
        return False
    target = node.target
    if isinstance(target, OpOverload):
        return target.name().split(".")[0] not in _UNINITIALISED
    return getattr(target, "__module__", "") == "_operator"


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and any(may_alias(node))


def _call_key(node: fx.Node, equal: Mapping[fx.Node, fx.Node]) -> Hashable:
    """Return what the node computes: operator, operands, constants, and the form of its value."""
    arguments = _argument_key((node.args, node.kwargs), equal)
    return (node.target, arguments, _form(node.meta.get("val")))


def _argument_key(value: object, equal: Mapping[fx.Node, fx.Node]) -> Hashable:
    """Return a stand-in; 1, True, 1.0 and -0.0, 0.0 have different ones."""
    if isinstance(value, fx.Node):
        return equal.get(value, value)
    if isinstance(value, (tuple, list)):
        return tuple(_argument_key(item, equal) for item in value)
    if isinstance(value, Mapping):
        return tuple((key, _argument_key(value[key], equal)) for key in sorted(value, key=str))
    if value is None or isinstance(value, (int, str, float, complex)):
        return (type(value), repr(value))
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return value
    raise _NotComparableError


def _form(value: object) -> Hashable:
    """Return what is known of a value: two sizes that only running will tell are two symbols."""
    if isinstance(value, torch.Tensor):
        strides = tuple(map(str, value.stride())) if value.layout is torch.strided else ()
        return (
            *(value.dtype, value.device, value.layout, value.requires_grad, type(value)),
            *(tuple(map(str, value.shape)), strides),
        )
    if isinstance(value, (tuple, list)):
        return tuple(map(_form, value))
    return str(value)


def _plan_key(node: fx.Node, reader: AnnotationReader) -> Hashable:
    """Return what is to become of the node: its side, its annotation, its checkpointing."""
    meta = node.meta
    call = meta.get("ac_graph_id")
    used_by: tuple[str, ...] = ()
    if call is not None or meta.get("recompute") is not None:
        # The partitioner saves what another checkpointed call uses.
        calls = {
            str(user.meta.get("ac_graph_id"))
            for user in node.users
            if user.meta.get(SIDE) == meta.get(SIDE)
        }
        used_by = tuple(sorted(calls - {str(call)}))
    return (
        meta.get(SIDE),
        meta.get("autograd_backward"),
        reader.key_of(meta.get("custom") or None),
        str(call),
        str(meta.get("recompute")),
        used_by,
    )
