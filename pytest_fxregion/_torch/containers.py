"""Nested containers, as ``torch.compile`` itself flattens arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils import _pytree
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map as tree_map


def parts_of(value: object) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """Return what is in a container that pytree knows, and what makes one of others.

    One level of it, where ``tree_map`` and its like call themselves for the next; None for a leaf.
    ``SUPPORTED_NODES``, ``_get_node_type`` (of a named tuple its kind): 2.11 to 2.15.
    """
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(value))
    if node is None:
        return None
    parts, context = node.flatten_fn(value)
    return list(parts), lambda others: node.unflatten_fn(others, context)


def named_parts_of(value: object) -> list[tuple[str, Any]] | None:
    """Return what is in a container that pytree knows, by ``.name`` or ``[key]``; None for a leaf.

    A class may be registered without names; then they are numbers.
    """
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(value))
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return [(f"[{number}]", part) for number, part in enumerate(node.flatten_fn(value)[0])]
    return [(str(key), part) for key, part in node.flatten_with_keys_fn(value)[0]]
