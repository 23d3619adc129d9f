"""What is found in values that hold others, and how much of them is looked at."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pytest_fxregion import containers
from pytest_fxregion.containers import flatten_with_names
from pytest_fxregion.contents import Contents

T = torch.zeros(1)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Cache:
    keys: Any
    length: int = 3


def test_names_say_where_a_leaf_is() -> None:
    tree = {
        "xs": [1, (T, None)],
        "cfg": {"a": {2: T}, "b": OrderedDict(c="text")},
        "pair": Pair(T, [T]),
        "cache": Cache([T]),
    }
    assert [name for name, _ in flatten_with_names(tree)] == [
        "xs[0]",
        "xs[1][0]",
        "xs[1][1]",
        "cfg['a'][2]",
        "cfg['b']['c']",
        "pair.first",
        "pair.second[0]",
        "cache.keys[0]",
        "cache.length",
    ]
    assert [name for name, _ in flatten_with_names(tree, plain=False)] == [
        "xs[1][0]",
        "cfg['a'][2]",
        "pair.first",
        "pair.second[0]",
        "cache.keys[0]",
    ]


def test_what_holds_itself_is_looked_into_once() -> None:
    table: dict[str, Any] = {"t": T}
    table["self"] = [table]
    assert [name for name, _ in flatten_with_names({"table": table})] == ["table['t']"]
    twice = [T]
    found = flatten_with_names({"a": twice, "b": [twice, twice]})
    assert [name for name, _ in found] == ["a[0]", "b[0][0]", "b[1][0]"]


def test_the_names_of_a_module_are_no_content_of_what_wraps_its_functions() -> None:
    class Wrapped:
        def __init__(self) -> None:
            self.tensors = [T]
            self.names = globals()

    wrapped = Wrapped()
    assert [name for name, _ in flatten_with_names({"w": wrapped})] == ["w.tensors[0]"]
    before = Contents([wrapped])
    try:
        globals()["made_by_a_call"] = T
        before.put_back()
        assert wrapped.names is globals()
        assert "made_by_a_call" in globals()
    finally:
        del globals()["made_by_a_call"]


def test_entries_of_a_vocabulary_are_not_looked_at_for_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = []
    named = containers._named

    def counted(value: Any, *rest: Any) -> Any:
        looked_at.append(type(value))
        return named(value, *rest)

    monkeypatch.setattr(containers, "_named", counted)
    tree = {"vocabulary": {str(i): i for i in range(1000)}, "merges": [["a", "b"]] * 3, "t": T}
    assert flatten_with_names(tree, plain=False) == [("t", T)]
    assert looked_at == [dict, list, list, list, list, Tensor]
