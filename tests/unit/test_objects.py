"""Attributes of objects whose classes interfere: they are read, set and copied all the same."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from pytest_fxregion.objects import (
    attributes_of,
    copy_of,
    entries_of,
    is_a,
    is_users_own,
    remove_attribute,
    set_attribute,
    set_entries,
)


class Trap:
    """Whoever calls any code of its class hears of it."""

    __slots__ = ("__dict__", "__secret", "empty", "slot")

    def __init__(self) -> None:
        for key, value in {"plain": 1, "covered": 2, "slot": 3, "_Trap__secret": 4}.items():
            set_attribute(self, key, value)

    def _sprung(self, *_: Any) -> Any:
        raise RuntimeError("the trap is sprung")

    covered = property(_sprung, _sprung, _sprung)
    __getattr__ = __setattr__ = __delattr__ = __eq__ = __bool__ = __len__ = _sprung
    __copy__ = __deepcopy__ = __reduce_ex__ = __repr__ = __iter__ = _sprung
    __hash__ = None  # type: ignore[assignment]


class WithoutDictionary:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("none")


class Disguised:
    __class__ = torch.Tensor  # type: ignore[assignment]


class Unspeakable:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("not to be asked")


class Needy:
    def __new__(cls, _argument: object) -> Needy:
        return object.__new__(cls)


class Guarded(dict[str, Any]):
    def _no(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("guarded")

    __setitem__ = __delitem__ = __iter__ = clear = update = items = copy = _no


class Ordered(OrderedDict[str, Any]):
    pass


class Filling(defaultdict[str, Any]):
    pass


class Word(str):
    pass


@dataclass(frozen=True, slots=True)
class Frozen:
    number: int


def test_attributes_are_read_set_and_removed_without_calling_the_class() -> None:
    trap = Trap()
    assert attributes_of(trap) == {"plain": 1, "covered": 2, "_Trap__secret": 4, "slot": 3}
    for key in ("plain", "covered", "slot", "empty"):
        set_attribute(trap, key, 10)
        assert attributes_of(trap)[key] == 10
        remove_attribute(trap, key)
        assert key not in attributes_of(trap)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Trap, ()),
        (Needy, (1,)),
        (Frozen, (2,)),
        (threading.local, ()),
        (WithoutDictionary, ()),
        (Unspeakable, ()),
    ],
)
def test_a_copy_is_another_object_with_the_same_attributes_or_the_same(
    kind: Any, given: tuple[Any, ...]
) -> None:
    value = kind(*given)
    made = copy_of(value)
    assert type(made) is type(value)
    assert attributes_of(made) == attributes_of(value)
    assert (made is value) == (kind is threading.local)  # which nothing can copy


def test_what_an_object_of_c_holds_is_copied_with_it() -> None:
    word = Word("text")
    word.tensor = torch.ones(1)  # type: ignore[attr-defined]
    made = copy_of(word)
    assert made == "text"
    assert made is not word
    assert attributes_of(made)["tensor"] is attributes_of(word)["tensor"]


@pytest.mark.parametrize("kind", [Guarded, Ordered, Filling])
def test_entries_are_read_and_set_whatever_the_class_says(kind: Any) -> None:
    table = kind.__new__(kind)
    set_entries(table, [("b", 1), ("a", 2)])
    assert entries_of(table) == [("b", 1), ("a", 2)]
    made = copy_of(table)
    assert (type(made), entries_of(made)) == (kind, [])
    set_entries(table, [("a", 3)])
    assert entries_of(table) == [("a", 3)]


def test_a_copy_fills_what_is_missing_as_its_original_does() -> None:
    assert copy_of(Filling(list))["new"] == []


def test_an_object_is_what_its_type_is_and_not_what_it_says() -> None:
    assert isinstance(Disguised(), torch.Tensor)
    assert not is_a(Disguised(), torch.Tensor)
    assert is_a(nn.Parameter(torch.ones(1)), torch.Tensor)
    assert is_users_own(Disguised())
    assert is_users_own(Unspeakable())
