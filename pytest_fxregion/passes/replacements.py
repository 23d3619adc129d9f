"""Give nodes that torch's own passes put in place of others the metadata of those.

Comes in: a graph while, or after, such a pass changes it.  Goes out: the same graph, annotated.

Two passes of torch make nodes without metadata, and an annotation ends there:

- Under dynamic shapes an operation with a Python float becomes one with a tensor, made of several
  nodes, after the joint graph (or that of an inference) has been traced.
- A random operation that is recomputed becomes a higher-order operator that saves or restores the
  state of the generator, when the joint graph is partitioned.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.operators import OpOverload, operator_under_rng_state

# What a node says of the value that it computes itself, and not of the code that it comes from.
_OF_THE_VALUE = frozenset(("val", "tensor_meta", "example_value", "original_aten", "from_node"))


@contextmanager
def replacements_annotated(graph: fx.Graph) -> Iterator[None]:
    """While active, each new node takes the metadata of the node in whose place it is put.

    For a pass that walks the graph's nodes in order and inserts before the next one.
    """
    before = list(graph.nodes)
    replaced = dict(zip(before[1:], before, strict=False))
    create_node = graph.create_node

    def create_annotated(*args: Any, **kwargs: Any) -> fx.Node:
        node = create_node(*args, **kwargs)
        if node.next in replaced:
            _take_over(node, replaced[node.next].meta)
        return node

    graph.create_node = create_annotated  # type: ignore[method-assign]
    try:
        yield
    finally:
        del graph.create_node


class RandomOperations:
    """The random operations of a joint graph, to find again what stands for them afterwards."""

    def __init__(self, joint_graph: fx.GraphModule) -> None:
        self._known: list[tuple[str, Hashable, dict[str, Any]]] = [
            (node.name, _call_of(node.target, node.args, node.kwargs), node.meta)
            for node in joint_graph.graph.nodes
            if _is_random(node.target)
        ]

    def annotate(self, part: fx.GraphModule) -> None:
        """Annotate the operators that draw under a saved state in the forward or the backward.

        Of equal calls the first stands for the first: a partitioned graph keeps their order.
        """
        if not self._known:
            return
        unchanged = {node.name for node in part.graph.nodes if _is_random(node.target)}
        candidates: dict[Hashable, deque[dict[str, Any]]] = defaultdict(deque)
        for name, call, meta in self._known:
            if name not in unchanged:
                candidates[call].append(meta)
        for node in part.graph.nodes:
            drawn = operator_under_rng_state(node)
            if drawn is not None:
                waiting = candidates[_call_of(*drawn)]
                if waiting:
                    _take_over(node, waiting.popleft())


def _take_over(node: fx.Node, meta: dict[str, Any]) -> None:
    for key, value in meta.items():
        if key not in _OF_THE_VALUE:
            node.meta.setdefault(key, value)


def _is_random(target: object) -> bool:
    return isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _call_of(target: object, args: Sequence[Any], kwargs: dict[str, Any]) -> Hashable:
    """Tell calls apart by what they are given, operands by name."""
    return repr((target, tuple(args), dict(kwargs)))  # a node's text is its name
