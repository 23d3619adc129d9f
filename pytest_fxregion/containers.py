"""Look into what holds other values: containers, data classes, objects of the user's own.

Comes in: any value.  Goes out: what it holds, by names such as ``xs[0]``, ``cfg['a']`` and
``cache.keys``, or a copy that holds other values.

Lists, tuples, dictionaries and what is registered with ``torch.utils._pytree`` are containers, as
they are to ``torch.compile``.  So is an object of a class of the user's own that holds a tensor, in
an attribute or deeper: a data class, a cache of keys and values.  What can be called is none.
"""

from __future__ import annotations

import copy
import enum
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pytest_fxregion._torch import (
    key_text,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
)

# Never objects of the user's own that hold tensors.
_OTHERS = (torch.Tensor, nn.Module, Optimizer, ModuleType, type, enum.Enum, BaseException)
_NOT_THE_USERS = frozenset(("torch", "builtins", "pytest_fxregion", "_pytest"))


def flatten_with_names(tree: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the leaves of each entry, named by entry and path.

    An object that holds itself is a leaf there.
    """
    return [leaf for name, value in tree.items() for leaf in _named(name, value, frozenset())]


def _named(name: str, value: Any, inside: frozenset[int]) -> Iterator[tuple[str, Any]]:
    for path, leaf in tree_flatten_with_path(value)[0]:
        place = name + key_text(path)
        held = {} if id(leaf) in inside else attributes(leaf)
        if not held:
            yield place, leaf
        for key, value in held.items():
            yield from _named(f"{place}.{key}", value, inside | {id(leaf)})


def flat(tree: Any) -> list[Any]:
    """Return the leaves."""
    return [leaf for _, leaf in flatten_with_names({"": tree})]


def mapped(function: Callable[[Any], Any], tree: Any, known: dict[int, Any] | None = None) -> Any:
    """Return the tree with ``function`` of each leaf in its place; objects are copied, each once.

    ``known`` remembers the copies, by the identity of the original, from one call to the next.
    """
    copies: dict[int, Any] = {} if known is None else known

    def one(leaf: Any) -> Any:
        if id(leaf) in copies:
            return copies[id(leaf)]
        held = attributes(leaf)
        if not held:
            return function(leaf)
        made = copies[id(leaf)] = copy.copy(leaf)
        for key, value in held.items():
            object.__setattr__(made, key, tree_map(one, value))
        return made

    return tree_map(one, tree)


def holders(tree: Any) -> list[Any]:
    """Return the lists, dictionaries and objects that can be made to hold others, each once."""
    found: dict[int, Any] = {}
    pending = [tree]
    while pending:
        value = pending.pop()
        if id(value) in found:
            continue
        if isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
        else:
            held = attributes(value)
            pending += held.values()
            if not held:
                continue
        if not isinstance(value, tuple):
            found[id(value)] = value
    return list(found.values())


def content_of(holder: Any) -> Any:
    """Return what :func:`put_back` needs."""
    if isinstance(holder, list | dict):
        return copy.copy(holder)
    return attributes(holder)


def put_back(holder: Any, content: Any) -> None:
    """Let a list, a dictionary or an object hold again what it did; if it does, leave it alone."""
    if isinstance(holder, list):
        if len(holder) != len(content) or any(map(operator.is_not, holder, content)):
            holder[:] = content
    elif isinstance(holder, dict):
        if holder.keys() != content.keys() or any(holder[k] is not content[k] for k in content):
            holder.clear()
            holder.update(content)
    else:
        for key in _held(holder).keys() - content.keys():
            object.__delattr__(holder, key)
        for key, value in content.items():
            object.__setattr__(holder, key, value)


def replaced(
    before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]
) -> dict[str, torch.Tensor | float | None]:
    """Return which leaves are there that were not, tensors and numbers.

    A tensor that is not there any more is None.
    """
    known, now = dict(before), dict(after)
    found = {
        name: leaf
        for name, leaf in after
        if known.get(name) is not leaf and isinstance(leaf, torch.Tensor | int | float)
    }
    gone = {n: None for n, leaf in before if n not in now and isinstance(leaf, torch.Tensor)}
    return {**found, **gone}


def attributes(value: Any) -> dict[str, Any]:
    """Return what an object of the user's own holds, by attribute; nothing where that is no tensor.

    That is what :func:`copy.copy` would copy.
    """
    return _held(value) if _holds_a_tensor(value, set()) else {}


def _held(value: Any) -> dict[str, Any]:
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if isinstance(value, _OTHERS) or callable(value) or home in _NOT_THE_USERS:
        return {}
    held = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for key in (slots,) if isinstance(slots, str) else slots:
            if key not in ("__dict__", "__weakref__") and hasattr(value, key):
                held.setdefault(key, getattr(value, key))
    return held


def _holds_a_tensor(value: Any, seen: set[int]) -> bool:
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(
        isinstance(leaf, torch.Tensor) or _holds_a_tensor(leaf, seen)
        for held in _held(value).values()
        for leaf in tree_leaves(held)
    )
