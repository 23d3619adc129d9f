"""What must keep its order beyond data flow.  In: a graph's nodes; out: extra edges and barriers.

Four kinds of node care about order: those that write to storage that others read, those that draw
random numbers, collectives, and those with an effect outside the graph.  Each kind gives a number
of edges that is linear in its uses: a chain for the last three; for a storage, reader to next
writer and writer to next readers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from pytest_fxregion._torch.operators import (
    HigherOrderOperator,
    OpOverload,
    SchemaArgument,
    global_state_switches,
    schema_of,
    side_effectful_functions,
)
from pytest_fxregion._torch.tensors import storage_key

from .region import ArtifactCall
from .values import attribute_of

_COLLECTIVE_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d")
# Random state is read, set or advanced inside; where it happens matters to every later draw.
_RNG_OPERATORS = ("run_and_save_rng_state", "run_with_rng_state", "graphsafe_run_with_rng_state")
# Assertions depend on what they check and on nothing else; to chain them would cut regions.
_ASSERTIONS = (
    "aten::_assert_async",
    "aten::_assert_scalar",
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
)


_NOTHING: frozenset[str] = frozenset()
_WRITE = frozenset({"write"})
_BARRIER = frozenset({"barrier"})


@dataclass(frozen=True)
class Order:
    """``edges``: pairs (earlier, later) of node numbers.  ``barriers``: crossed by nothing."""

    edges: tuple[tuple[int, int], ...]
    barriers: tuple[int, ...]


def order_constraints(nodes: Sequence[Node], index: Mapping[Node, int]) -> Order:
    """Edges and barriers that keep the graph's effects in program order.  Linear in the graph."""
    chains: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    barriers: list[int] = []
    writers: dict[Node, list[Node]] = {}
    for i, node in enumerate(nodes):
        for kind in sorted(effects_of(node)):
            if kind == "barrier":
                barriers.append(i)
            elif kind == "write":
                writers[node] = written_arguments(node)
            else:
                if kind in chains:
                    edges.append((chains[kind], i))
                chains[kind] = i
    if writers:
        edges.extend(_storage_edges(nodes, index, writers))
    return Order(tuple(edges), tuple(barriers))


def is_pure(node: Node) -> bool:
    """Whether the node does nothing but compute its value."""
    return node.op == "call_function" and not effects_of(node)


def is_drawn_or_pure(node: Node) -> bool:
    """Whether the node does nothing but compute its value, from random numbers perhaps."""
    return node.op == "call_function" and effects_of(node) <= {"rng"}


def effects_of(node: Node) -> frozenset[str]:
    """Return what a node does besides computing its value; in-place random operators do two things.

    ``write``, ``rng``, ``collective``, ``effect`` (outside of the graph), ``barrier`` (a switch of
    global state).  An operator with bodies does what they do; a switch inside of one ends with it.
    """
    target = node.target
    if isinstance(target, OpOverload):
        return _effects_of_operator(target)
    if node.op == "call_method":
        return _WRITE if str(target).endswith("_") else _NOTHING
    if node.op != "call_function":
        return _NOTHING
    own = _effects_of_function(target)
    if not isinstance(target, HigherOrderOperator):
        return own
    inner = (effects_of(inside) for body in _bodies(node) for inside in body.graph.nodes)
    return own | _NOTHING.union(*inner) - _BARRIER


def written_arguments(node: Node) -> list[Node]:
    """Return the arguments that the node writes to."""
    if node.op == "call_method":
        first = node.args[0] if str(node.target).endswith("_") and node.args else None
        return [first] if isinstance(first, Node) else []
    target = node.target
    if "write" not in effects_of(node):
        return []
    if isinstance(target, OpOverload):
        found: list[Node] = []
        for schema, value in _bound_arguments(target, node):
            if schema.alias_info is not None and schema.alias_info.is_write:
                found.extend(_nodes_in(value))
        return found
    return list(node.all_input_nodes)


def _effects_of_function(target: object) -> frozenset[str]:
    if isinstance(target, ArtifactCall):
        return _NOTHING if target.is_lean else _BARRIER  # what was compiled may do anything
    if target in global_state_switches:
        return _BARRIER
    name = getattr(target, "__name__", "")
    if isinstance(target, HigherOrderOperator):
        if name in _RNG_OPERATORS:
            return frozenset({"rng"})
        if name == "triton_kernel_wrapper_mutation":
            return _WRITE
    elif getattr(target, "__module__", "") == "_operator":
        return _WRITE if _writes_first_operand(name) else _NOTHING
    return frozenset({"effect"}) if target in side_effectful_functions else _NOTHING


@functools.cache
def _effects_of_operator(overload: OpOverload) -> frozenset[str]:
    found = set()
    if overload.namespace in _COLLECTIVE_NAMESPACES:
        found.add("collective")
    if torch.Tag.nondeterministic_seeded in overload.tags:
        found.add("rng")
    if schema_of(overload).is_mutable:
        found.add("write")
    is_assertion = overload.name().split(".")[0] in _ASSERTIONS
    if not found and not is_assertion and overload in side_effectful_functions:
        found.add("effect")
    return frozenset(found)


def _bodies(node: Node) -> list[GraphModule]:
    """Return the graphs that an operator takes as arguments."""
    owner = node.graph.owning_module
    if owner is None:
        return []
    held = [
        attribute_of(owner, str(source.target))
        for source in node.all_input_nodes
        if source.op == "get_attr"
    ]
    return [body for body in held if isinstance(body, GraphModule)]


def _writes_first_operand(name: str) -> bool:
    """Whether a function of :mod:`operator` is an in-place one: ``iadd`` is ``add``'s."""
    return name in ("setitem", "delitem") or (
        name.startswith("i") and hasattr(operator, f"__{name[1:]}__")
    )


def _storage_edges(
    nodes: Sequence[Node], index: Mapping[Node, int], writers: Mapping[Node, Sequence[Node]]
) -> list[tuple[int, int]]:
    """Order the writers of each storage with its readers; see :func:`alias_classes`.

    ``writers``: of each node that writes, to which arguments.
    """
    alias = alias_classes(nodes, index)
    last_write: dict[int, int] = {}
    reads: dict[int, list[int]] = {}
    edges: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        if node.target is operator.getitem:
            continue  # takes a value out of its container: no storage is read
        writes = {alias[index[arg]] for arg in writers.get(node, ())}
        touched = {alias[index[arg]] for arg in node.all_input_nodes}
        for storage in sorted(touched):
            if storage in last_write:
                edges.append((last_write[storage], i))
            if storage in writes:
                edges.extend((reader, i) for reader in reads.pop(storage, ()))
                last_write[storage] = i
            else:
                reads.setdefault(storage, []).append(i)
    return edges


def alias_classes(nodes: Sequence[Node], index: Mapping[Node, int]) -> list[int]:
    """Number the nodes, equally where they may share storage (union-find)."""
    parent = list(range(len(nodes)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    storages: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for other in may_alias(node):
            parent[find(i)] = find(index[other])
        for key in storage_key(node.meta.get("val")):
            if key in storages:
                parent[find(i)] = find(storages[key])
            else:
                storages[key] = i
    return [find(i) for i in range(len(nodes))]


def may_alias(node: Node) -> Iterable[Node]:
    """Return the arguments whose storage the node's value may share."""
    if node.op == "output":
        return ()
    target = node.target
    if isinstance(target, OpOverload):
        if all(result.alias_info is None for result in schema_of(target).returns):
            return ()
        return [
            arg
            for schema, value in _bound_arguments(target, node)
            if schema.alias_info is not None
            for arg in _nodes_in(value)
        ]
    return node.all_input_nodes


def _bound_arguments(target: OpOverload, node: Node) -> list[tuple[SchemaArgument, object]]:
    bound: list[tuple[SchemaArgument, object]] = []
    for position, schema in enumerate(schema_of(target).arguments):
        if position < len(node.args) and not schema.kwarg_only:
            bound.append((schema, node.args[position]))
        elif schema.name in node.kwargs:
            bound.append((schema, node.kwargs[schema.name]))
    return bound


def _nodes_in(value: object) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, (list, tuple)):
        return [node for item in value for node in _nodes_in(item)]
    return []


def only_computes(body: GraphModule) -> bool:
    """Whether the body writes to nothing and gives no two names to one storage."""
    roots: dict[Node, frozenset[Node]] = {}
    storages: set[int] = set()
    for node in body.graph.nodes:
        if node.op == "output":
            taken: set[Node] = set()
            for result in node.all_input_nodes:
                keys = set(storage_key(result.meta.get("val")))
                if keys & storages or roots[result] & taken or _holds_placeholder(roots[result]):
                    return False
                storages |= keys
                taken |= roots[result]
        elif node.op == "placeholder":
            roots[node] = frozenset((node,))
            storages.update(storage_key(node.meta.get("val")))
        elif is_pure(node):
            sources = frozenset().union(*(roots[source] for source in may_alias(node)))
            if node.target is operator.getitem and sources == frozenset(node.all_input_nodes):
                sources = frozenset()  # the items of a new container are apart from each other
            roots[node] = sources or frozenset((node,))
        else:
            return False
    return True


def _holds_placeholder(nodes: frozenset[Node]) -> bool:
    return any(node.op == "placeholder" for node in nodes)
