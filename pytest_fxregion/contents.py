"""What can be changed without a tensor being written to: kept, and put back afterwards.

Comes in: what a call can reach.  Goes out: what lists, dictionaries, sets and objects held, and
where generators of random numbers were; afterwards they hold the same and draw the same again, and
are the objects that they were.

The user's own objects are put back in any case.  An object of another library's class is put back
where it holds a tensor before or after: a cache of keys and values, say.  What else such an object
keeps (what it has compiled, looked up or logged) is the library's, which may keep other things in
accord with it that nobody else can see.
"""

from __future__ import annotations

import operator
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from pytest_fxregion.containers import values_in, what_holds_tensors
from pytest_fxregion.objects import (
    PLAIN,
    attributes_of,
    is_a,
    is_namespace,
    is_of_a_library,
    is_users_own,
    remove_attribute,
    set_attribute,
    set_entries,
)

_BASES: tuple[Any, ...] = (dict, list, set, deque)


@dataclass(frozen=True)
class Content:
    """What a list, a dictionary, a set or an object holds."""

    holder: Any
    items: Sequence[Any]
    attributes: dict[str, Any] | None  # None for what is no object of the user's own

    @classmethod
    def of(cls, holder: Any) -> Content:
        """Return what it holds now."""
        return cls(holder, _items(holder), attributes_of(holder) if is_users_own(holder) else None)

    def put_back(self) -> None:
        """Let the holder hold it again; if it does, leave it alone."""
        holder = self.holder
        if not _are_the_same(_items(holder), self.items):
            _set_items(holder, self.items)
        if self.attributes is None:
            return
        now = attributes_of(holder)
        for key in now.keys() - self.attributes.keys():
            remove_attribute(holder, key)
        for key, value in self.attributes.items():
            if now.get(key, self) is not value:
                set_attribute(holder, key, value)


class Contents:
    """What all that a tree holds can be made to hold, to be put back."""

    def __init__(self, tree: Any) -> None:
        # How to put back one of them, and the object of a library's that it belongs to.
        self._kept: list[tuple[Any, Callable[[], None]]] = []
        seen = dict[int, Any]()
        users: list[Any] = [tree]
        librarys: list[tuple[Any, Any]] = []  # after the user's own, which may hold the same
        while users or librarys:
            value, owner = (users.pop(), None) if users else librarys.pop()
            if type(value) in PLAIN or id(value) in seen or is_namespace(value):
                continue
            draw_again = _of_generator(value)
            if draw_again is not None:
                seen[id(value)] = value
                self._kept.append((owner, draw_again))
                continue
            if owner is not value and is_users_own(value):
                owner = value if is_of_a_library(value) else None
                if owner is value:
                    librarys.append((value, value))
                    continue
            seen[id(value)] = value
            if is_users_own(value) or _base_of(value) is not None:
                self._kept.append((owner, Content.of(value).put_back))
            if owner is None:
                users += values_in(value)
            else:
                librarys += [(inner, owner) for inner in values_in(value)]
        self._owners = [owner for owner, _ in self._kept if owner is not None]
        self._holding = what_holds_tensors(self._owners)

    def put_back(self) -> None:
        """Put it back."""
        holding = self._holding | what_holds_tensors(self._owners)
        for owner, put_back in self._kept:
            if owner is None or id(owner) in holding:
                put_back()


def random_numbers() -> list[Callable[[], None]]:
    """Return what lets Python and numpy draw again, without a generator, what they draw next."""
    numpy = sys.modules.get("numpy.random")
    found: list[Callable[[], None]] = [partial(random.setstate, random.getstate())]
    if numpy is not None:
        found.append(partial(numpy.set_state, numpy.get_state(legacy=False)))
    return found


@contextmanager
def drawing_from(states: Iterable[Callable[[], None]]) -> Iterator[None]:
    """Draw in a scope what was to be drawn when :func:`random_numbers` was asked."""
    now = random_numbers()
    for state in states:
        state()
    try:
        yield
    finally:
        for state in now:
            state()


def draws_random_numbers(value: Any) -> bool:
    """Whether a value is a generator of Python's, numpy's or torch's."""
    return _of_generator(value) is not None


def _of_generator(value: Any) -> Callable[[], None] | None:
    """Return what lets a generator draw again what it draws next; None for anything else."""
    kind = type(value)
    if kind is random.Random:
        return partial(value.setstate, value.getstate())
    if kind is torch.Generator:
        return partial(value.set_state, value.get_state())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and kind is numpy.RandomState:
        return partial(value.set_state, value.get_state(legacy=False))
    if numpy is not None and kind is numpy.Generator:
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    return None


def _base_of(value: Any) -> Any:
    """Return as which of Python's own a value can be filled; None if it holds nothing."""
    kind = type(value)
    return kind if kind in _BASES else next((b for b in _BASES if issubclass(kind, b)), None)


def _items(holder: Any) -> Sequence[Any]:
    """Return what it holds without a name, in order; of a dictionary the keys, then the values."""
    base = _base_of(holder)
    if base is dict:
        kind = OrderedDict if is_a(holder, OrderedDict) else dict  # which has its own order
        return [*kind.keys(holder), *kind.values(holder)]
    return [] if base is None else list(base.__iter__(holder))


def _set_items(holder: Any, items: Sequence[Any]) -> None:
    base = _base_of(holder)
    if base is dict:
        count = len(items) // 2
        set_entries(holder, zip(items[:count], items[count:], strict=True))
    elif base is list:
        list.__setitem__(holder, slice(None), items)
    elif base is set:
        set.clear(holder)
        set.update(holder, items)
    elif base is deque:
        deque.clear(holder)
        deque.extend(holder, items)


def _are_the_same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and not any(map(operator.is_not, now, before))
