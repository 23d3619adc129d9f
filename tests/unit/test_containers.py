"""What is found in values that hold others, and how much of them is looked at."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pytest_fxregion import containers
from pytest_fxregion.containers import flat, flatten_with_names, mapped
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
    assert looked_at == [list, Tensor]


class Linked:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


DEPTH = 10_000


@pytest.mark.parametrize(
    "around",
    [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: OrderedDict(a=v), Linked],
    ids=["list", "tuple", "dict", "registered", "object"],
)
def test_nothing_lies_too_deep(around: Any) -> None:
    tree = T
    for _ in range(DEPTH):
        tree = around(tree)
    ((name, leaf),) = flatten_with_names({"x": tree})
    assert leaf is T
    assert name.count("a" if "a" in name else "[0]" if "[" in name else "inner") == DEPTH
    Contents([tree]).put_back()
    other = torch.ones(1)
    copied = mapped(lambda _: other, tree)
    assert flat(copied) == [other]
    assert flat(tree) == [T]
    while tree is not T:  # one by one: an interpreter frees no chain of any length at once
        tree = next(iter(vars(tree).values() if isinstance(tree, Linked) else _inside(tree)))


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def test_a_copy_of_what_holds_itself_holds_itself() -> None:
    items: list[Any] = [T, 1]
    table: dict[str, Any] = {"items": (items,)}
    last: deque[Any] = deque([items], maxlen=3)
    node = Linked([table])
    items += [items, table, node, last]
    for tree in (items, table, last, node, (node,)):
        flatten_with_names({"x": tree})
        copied = mapped(lambda leaf: leaf + 1, tree)
        (found,) = (leaf for leaf in flat({"x": copied}) if isinstance(leaf, Tensor))
        assert found.item() == 1
    made = mapped(lambda leaf: leaf + 1, items)
    assert made[2] is made
    assert made[3]["items"][0] is made
    assert made[4].inner[0] is made[3]
    assert made[5][0] is made
    assert made[5].maxlen == 3
    assert items[0] is T


def test_lists_that_hold_each_other_are_not_looked_into_on_every_way() -> None:
    lists: list[list[Any]] = [[i] for i in range(30)]  # 30! ways lead through them
    for each in lists:
        each += [other for other in lists if other is not each]
    assert len(flatten_with_names({"x": lists[0]})) < 1000


def test_a_subclass_of_dictionaries_or_lists_is_looked_into_and_copied() -> None:
    class Batch(dict[str, Any]):
        pass

    class Rows(list[Any]):
        pass

    batch = Batch(x=T, rows=Rows([T, "text"]))
    batch.extra = T  # type: ignore[attr-defined]
    names = [name for name, _ in flatten_with_names({"b": batch})]
    assert names == ["b.extra", "b['x']", "b['rows'][0]", "b['rows'][1]"]
    copied = mapped(lambda leaf: leaf + 1 if isinstance(leaf, Tensor) else leaf, batch)
    assert (type(copied), type(copied["rows"])) == (Batch, Rows)
    assert (copied["x"].item(), copied["rows"][0].item(), copied.extra.item()) == (1, 1, 1)
    assert (batch["x"], batch["rows"][0]) == (T, T)


def test_a_class_may_be_registered_without_names() -> None:
    class Both:
        def __init__(self, one: Any, other: Any) -> None:
            self.one, self.other = one, other

    torch.utils._pytree.register_pytree_node(
        Both, lambda both: ([both.one, both.other], None), lambda parts, _: Both(*parts)
    )
    found = flatten_with_names({"both": Both(T, [T])})
    assert [name for name, _ in found] == ["both[0]", "both[1][0]"]


def test_a_key_that_cannot_be_written_is_named_by_its_class() -> None:
    class Key:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert flatten_with_names({"table": {Key(): T}}) == [("table[a Key]", T)]
