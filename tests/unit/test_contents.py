"""What a call changes is put back, and what belongs to a library is left to it."""

from __future__ import annotations

import importlib
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from pytest_fxregion.contents import Contents

LIBRARY = """
class Cache:
    def __init__(self):
        self.found, self.order, self.layers = {}, [], []

    def look_up(self, key):
        self.order.append(key)
        return self.found.setdefault(key, len(key))
"""


class Mine:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An object of a library that is installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a_library_with_a_cache.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "a_library_with_a_cache", raising=False)
    return importlib.import_module("a_library_with_a_cache").Cache()


def test_all_that_can_be_filled_holds_the_same_again_in_the_same_order() -> None:
    first, second = object(), object()
    mine: Any = Mine(
        items=[first, second],
        table={first: 1, second: 2},
        ordered=OrderedDict(a=1, b=2),
        kinds={first},
        last=deque([first, second], maxlen=2),
        inner=(Mine(steps=0),),
    )
    held = dict(vars(mine))
    before = Contents([mine])
    mine.items.reverse()
    mine.table[first] = mine.table.pop(first)
    mine.ordered.move_to_end("a")
    mine.kinds.add(second)
    mine.last.append(first)
    mine.inner[0].steps = 1
    mine.new = mine.items
    mine.items = []
    before.put_back()
    assert vars(mine).keys() == held.keys()
    assert all(vars(mine)[key] is held[key] for key in held)
    assert mine.items == [first, second]
    assert list(mine.table) == [first, second]
    assert list(mine.ordered) == ["a", "b"]
    assert mine.kinds == {first}
    assert list(mine.last) == [first, second]
    assert mine.inner[0].steps == 0


def test_what_a_library_keeps_for_itself_stays_with_it(cache: Any) -> None:
    mine: Any = Mine(cache=cache, tables=[{}])
    before = Contents([mine])
    cache.look_up("word")
    mine.tables[0]["word"] = 4
    before.put_back()
    assert (cache.found, cache.order) == ({"word": 4}, ["word"])
    assert mine.tables == [{}]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_librarys_object_that_holds_a_tensor_is_put_back(cache: Any, when: str) -> None:
    if when == "before":
        cache.layers.append([torch.ones(1)])
    before, count = Contents([[cache]]), len(cache.layers)
    cache.look_up("word")
    cache.layers.append([torch.ones(1)])
    before.put_back()
    assert (cache.found, cache.order, len(cache.layers)) == ({}, [], count)


def test_what_the_user_holds_too_is_the_users(cache: Any) -> None:
    mine = Mine(shared=cache.order)
    cache.owner = mine
    for tree in ([cache, mine], [mine, cache], [cache]):
        before = Contents(tree)
        cache.look_up("word")
        before.put_back()
        assert cache.order == []


def test_the_modules_that_are_loaded_are_no_content() -> None:
    before = Contents([Mine(modules=sys.modules)])
    sys.modules["made_by_a_call"] = sys
    before.put_back()
    assert sys.modules.pop("made_by_a_call") is sys


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (random.Random(0), lambda g: g.random()),
        (numpy.random.default_rng(0), lambda g: g.random()),
        (numpy.random.RandomState(0), lambda g: g.rand()),
        (numpy.random.RandomState(numpy.random.SFC64(0)), lambda g: g.rand()),
        (torch.Generator(), lambda g: torch.rand(1, generator=g).item()),
    ],
    ids=["python", "numpy", "numpy's older", "numpy's both", "torch"],
)
@pytest.mark.parametrize("held", [lambda g: g, lambda g: Mine(g=[g])], ids=["itself", "held"])
def test_a_generator_draws_the_same_again(
    generator: Any, draw: Callable[[Any], float], held: Callable[[Any], Any]
) -> None:
    before = Contents([held(generator)])
    first = draw(generator)
    before.put_back()
    assert draw(generator) == first
