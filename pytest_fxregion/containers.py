"""Look into what holds other values: containers, data classes, objects of the user's own.

Comes in: any value.  Goes out: what it holds, by names such as ``xs[0]``, ``cfg['a']`` and
``cache.keys``, or a copy that holds other values.

Lists, tuples, dictionaries and what is registered with ``torch.utils._pytree`` are containers, as
they are to ``torch.compile``.  So is an object of a class of the user's own that holds a tensor, in
an attribute or deeper: a data class, a cache of keys and values, a trainer that can be called.
"""

from __future__ import annotations

import copy
import enum
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pytest_fxregion._torch import (
    key_text,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
)

# Never objects of the user's own that hold tensors.
_OTHERS = (torch.Tensor, nn.Module, Optimizer, ModuleType, type, enum.Enum, BaseException)
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))
_NOT_THE_USERS = frozenset(("torch", "triton", "pytest_fxregion", "pytest", "_pytest", "pluggy"))


def flatten_with_names(tree: Mapping[str, Any], *, plain: bool = True) -> list[tuple[str, Any]]:
    """Return the leaves of each entry, named by entry and path.

    An object is looked into where it comes first; elsewhere it is left out.  Without ``plain``
    numbers and texts are left out: a vocabulary has a hundred thousand of them.
    """
    walk = _Walk(plain)
    return [leaf for name, value in tree.items() for leaf in walk.named(name, value)]


class _Walk:
    def __init__(self, plain: bool) -> None:
        self._plain = plain
        self._seen = set[int]()  # objects
        self._inside = set[int]()  # lists and the like on the way here: they may hold themselves

    def named(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if kind in _PLAIN:
            if self._plain:
                yield name, value
        elif kind is list or kind is tuple:
            yield from self._held(name, value, value, enumerate(value))
        elif kind is dict:
            yield from self._held(name, value, value.values(), value.items())
        else:
            for path, leaf in tree_flatten_with_path(value)[0]:
                yield from self._leaf(name + key_text(path), leaf)

    def _held(
        self, name: str, value: Any, values: Iterable[Any], entries: Iterable[tuple[Any, Any]]
    ) -> Iterator[tuple[str, Any]]:
        if id(value) in self._inside:
            return
        if not self._plain and _PLAIN.issuperset(map(type, values)):
            return
        self._inside.add(id(value))
        for key, each in entries:
            yield from self.named(f"{name}[{key!r}]", each)
        self._inside.remove(id(value))

    def _leaf(self, name: str, leaf: Any) -> Iterator[tuple[str, Any]]:
        held = attributes(leaf)
        if not held:
            if self._plain or type(leaf) not in _PLAIN:
                yield name, leaf
        elif id(leaf) not in self._seen:
            self._seen.add(id(leaf))
            for key, inner in held.items():
                yield from self.named(f"{name}.{key}" if name else key, inner)


def flat(tree: Any) -> list[Any]:
    """Return the leaves, but for numbers and texts."""
    return [leaf for _, leaf in flatten_with_names({"": tree}, plain=False)]


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
            _set(made, key, tree_map(one, value))
        return made

    return tree_map(one, tree)


def holders(tree: Any) -> list[Any]:
    """Return the lists, dictionaries and objects that can be made to hold others, each once.

    Objects whether they hold a tensor by now or not: a cache may be empty.
    """
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
        elif is_users_own(value):
            pending += _held(value).values()
        else:
            continue
        if not isinstance(value, tuple):
            found[id(value)] = value
    return list(found.values())


def content_of(holder: Any) -> Any:
    """Return what :func:`put_back` needs."""
    return copy.copy(holder) if isinstance(holder, list | dict) else _held(holder)


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
        now = _held(holder)
        for key in now.keys() - content.keys():
            object.__delattr__(holder, key)
        for key, value in content.items():
            if now.get(key, holder) is not value:
                _set(holder, key, value)


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
    """Return what an object of the user's own holds, by attribute; nothing if it holds no tensor.

    A module or an optimizer counts as one.  That is what :func:`copy.copy` would copy.
    """
    return _held(value) if _holds_a_tensor(value) else {}


def is_users_own(value: Any) -> bool:
    """Whether a value is an object of a class that is neither Python's, torch's nor pytest's.

    Schedulers count: they hold an optimizer, and where they are.
    """
    kind = type(value)
    if kind is SimpleNamespace or isinstance(value, LRScheduler):
        return True
    home = kind.__module__.partition(".")[0]
    return not (
        home in sys.stdlib_module_names or home in _NOT_THE_USERS or isinstance(value, _OTHERS)
    )


def _held(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    for key in _slots(type(value)):
        if hasattr(value, key):
            found.setdefault(key, getattr(value, key))
    return {key: inner for key, inner in found.items() if not _is_namespace(inner)}


def _is_namespace(value: Any) -> bool:
    """Whether a value is what a module's names are in, which whoever wraps a function may keep."""
    return type(value) is dict and "__builtins__" in value


def _set(holder: Any, key: str, value: Any) -> None:
    if key in _slots(type(holder)):
        object.__setattr__(holder, key, value)
    else:
        vars(holder)[key] = value  # a property may have its name


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        found += (names,) if isinstance(names, str) else names
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _holds_a_tensor(value: Any) -> bool:
    seen = set[int]()
    pending = [value]
    while pending:
        current = pending.pop()
        if id(current) in seen or not is_users_own(current):
            continue
        seen.add(id(current))
        leaves = tree_leaves(list(_held(current).values()))
        if any(isinstance(leaf, torch.Tensor | nn.Module | Optimizer) for leaf in leaves):
            return True
        pending += leaves
    return False
