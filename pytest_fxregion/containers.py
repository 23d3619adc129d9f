"""Look into what holds other values: containers, data classes, objects of the user's own.

Comes in: any value.  Goes out: what it holds, by names such as ``xs[0]``, ``cfg['a']`` and
``cache.keys``, or a copy that holds other values.

Lists, tuples, dictionaries and what is registered with ``torch.utils._pytree`` are containers, as
they are to ``torch.compile``.  So is an object of a class of the user's own that holds a tensor, in
an attribute or deeper: a data class, a cache of keys and values, a trainer that can be called; and
the lists and dictionaries of such classes.  Values may hold themselves, and lie as deep as they
like: no walk here calls itself.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pytest_fxregion._torch.containers import named_parts_of, parts_of
from pytest_fxregion.objects import (
    PLAIN,
    attributes_of,
    copy_of,
    entries_of,
    is_a,
    is_namespace,
    is_users_own,
    set_attribute,
    set_entries,
)

_TABLES = frozenset((dict, OrderedDict, defaultdict))
_COMMON = _TABLES | {list, tuple}


def flatten_with_names(tree: Mapping[str, Any], *, plain: bool = True) -> list[tuple[str, Any]]:
    """Return the leaves of each entry, named by entry and path.

    An object is looked into where it comes first; elsewhere it is left out.  So is a list that
    holds itself.  Without ``plain`` numbers and texts are left out: a vocabulary has a hundred
    thousand of them.
    """
    holding = _Holding(tree.values())
    found: list[tuple[str, Any]] = []
    once = dict[int, Any]()  # what is looked into once, and was
    inside = set[int]()  # lists and the like on the way here
    path: list[str] = []
    ways: list[tuple[Any, Iterator[tuple[str, Any]]]] = [(None, iter(tree.items()))]
    while ways:
        here, entries = ways[-1]
        for key, value in entries:
            if id(value) in inside:
                once[id(value)] = value
                continue
            if id(value) in once or (not plain and _is_boring(value)):
                continue
            inner = _named(value, holding)
            if inner is None:
                found.append((_joined(path, key), value))
                continue
            if _is_object(value):
                once[id(value)] = value
            inside.add(id(value))
            path.append(key)
            ways.append((value, inner))
            break
        else:
            inside.discard(id(here))
            del path[-1:]
            ways.pop()
    return found


def flat(tree: Any) -> list[Any]:
    """Return the leaves, but for numbers and texts."""
    return [leaf for _, leaf in flatten_with_names({"": tree}, plain=False)]


def _joined(path: Sequence[str], key: str) -> str:
    name = "".join(path) + key
    return name[1:] if path[:1] == [""] and name[:1] == "." else name


def _is_object(value: object) -> bool:
    """Whether it is one of the user's own that pytree does not know."""
    return type(value) not in _COMMON and is_users_own(value) and parts_of(value) is None


class _Holding:
    """What of some values holds tensors, looked for when an object of the user's own is met."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values
        self._found: set[int] | None = None

    def __contains__(self, value: object) -> bool:
        if self._found is None:
            self._found = what_holds_tensors(self._values)
        return id(value) in self._found


def _named(value: Any, holding: _Holding) -> Iterator[tuple[str, Any]] | None:
    """Return what a value holds, by ``.name`` or ``[key]``; None if it is a leaf."""
    kind = type(value)
    if kind in PLAIN:
        return None
    if kind is list or kind is tuple:
        return _numbered(value)
    if kind in _TABLES:
        return _keyed(value)
    parts = named_parts_of(value)
    if parts is not None:
        return iter(parts)
    return _of_object(value) if is_users_own(value) and value in holding else None


def _is_boring(value: Any) -> bool:
    """Whether it is a number or a text, or a container of nothing else."""
    kind = type(value)
    if kind is list or kind is tuple:
        return PLAIN.issuperset(map(type, value))
    if kind in _TABLES:
        return PLAIN.issuperset(map(type, value.values()))
    return kind in PLAIN


def _numbered(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"[{i}]", each) for i, each in enumerate(list(values)))


def _keyed(table: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    return ((f"[{_text(key)}]", each) for key, each in entries_of(table))


def _text(key: object) -> str:
    try:
        return repr(key)
    except Exception:  # of the user's own
        return f"a {type(key).__name__}"


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    """Its attributes, and its entries if its class is a list's or a dictionary's."""
    for key, each in attributes_of(value).items():
        yield f".{key}", each
    if is_a(value, dict):
        yield from _keyed(value)
    elif is_a(value, list):
        yield from _numbered(list.__iter__(value))


def mapped(function: Callable[[Any], Any], tree: Any, known: dict[int, Any] | None = None) -> Any:
    """Return the tree with ``function`` of each leaf in its place; objects are copied, each once.

    ``known`` remembers the copies, by the identity of the original, from one call to the next.
    """
    return _Copying(function, {} if known is None else known, _Holding([tree])).of(tree)


class _Copying:
    """Makes the copy of one tree."""

    def __init__(
        self, function: Callable[[Any], Any], objects: dict[int, Any], holding: _Holding
    ) -> None:
        self._function = function
        self._objects = objects
        self._holding = holding
        self._containers: dict[int, Any] = {}
        # What is made and not filled yet: it may hold itself.
        self._empty: list[tuple[Any, Any]] = []

    def of(self, tree: Any) -> Any:
        made = self._made(tree)
        while self._empty:
            self._fill(*self._empty.pop())
        return made

    def _fill(self, original: Any, made: Any) -> None:
        if is_users_own(original):
            for key, each in attributes_of(original).items():
                set_attribute(made, key, self._made(each))
        if is_a(original, dict):
            set_entries(made, [(key, self._made(each)) for key, each in entries_of(original)])
        elif is_a(original, list):
            list.__setitem__(made, slice(None), list(map(self._made, list.__iter__(original))))
        elif is_a(original, deque):
            made.extend(map(self._made, list(original)))

    def _made(self, value: Any) -> Any:
        """Return the copy of a value, which may have to be filled."""
        if type(value) in PLAIN:
            return value
        ways, result = [self._steps(value)], None
        while ways:
            try:
                wanted = ways[-1].send(result)
            except StopIteration as end:
                ways.pop()
                result = end.value
            else:
                ways.append(self._steps(wanted))
                result = None
        return result

    def _steps(self, value: Any) -> Generator[Any, Any, Any]:
        """Yield what has to be made before, and return the copy."""
        kind = type(value)
        for copies in (self._objects, self._containers):
            if id(value) in copies:
                return copies[id(value)]
        if kind is list or kind in _TABLES:
            return self._begun(self._containers, value, copy_of(value))
        if kind is deque:
            return self._begun(self._containers, value, deque(maxlen=value.maxlen))
        parts = parts_of(value)
        if parts is None:
            if is_users_own(value) and value in self._holding:
                return self._begun(self._objects, value, copy_of(value))
            return self._function(value)
        self._containers[id(value)] = value  # what is registered and holds itself stays there
        leaves, together = parts
        inner = []
        for leaf in leaves:
            inner.append(leaf if type(leaf) in PLAIN else (yield leaf))
        made = self._containers[id(value)] = together(inner)
        return made

    def _begun(self, copies: dict[int, Any], value: Any, made: Any) -> Any:
        copies[id(value)] = made
        if made is not value:
            self._empty.append((value, made))
        return made


def what_holds_tensors(values: Iterable[Any]) -> set[int]:
    """Return the identities of all that is, or holds in any depth, a tensor.

    A module or an optimizer counts as one.
    """
    holders: dict[int, list[int]] = {}
    known: list[Any] = []  # what is registered may make what it holds as it is asked
    tensors: list[int] = []
    pending = [(value, 0) for value in values if type(value) not in PLAIN]
    while pending:
        value, holder = pending.pop()
        if id(value) in holders:
            holders[id(value)].append(holder)
            continue
        holders[id(value)] = [holder]
        known.append(value)
        if issubclass(type(value), torch.Tensor | nn.Module | Optimizer):
            tensors.append(id(value))
            continue
        pending += [(inner, id(value)) for inner in values_in(value) if not _is_boring(inner)]
    found = set[int]()
    while tensors:
        current = tensors.pop()
        if current not in found:
            found.add(current)
            tensors += holders.get(current, ())
    return found


def values_in(value: Any) -> list[Any]:
    """Return what a container or an object of the user's own holds; nothing of anything else."""
    kind = type(value)
    if kind is list or kind is tuple:
        return list(value)
    if kind in _TABLES:
        return [] if is_namespace(value) else list(value.values())
    parts = parts_of(value)
    if parts is not None:
        return parts[0]
    return [each for _, each in _of_object(value)] if is_users_own(value) else []


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
        if known.get(name) is not leaf and issubclass(type(leaf), torch.Tensor | int | float)
    }
    gone = {n: None for n, leaf in before if n not in now and is_a(leaf, torch.Tensor)}
    return {**found, **gone}
