"""Random edits of random graphs are found exactly: nothing missed, nothing else claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_fxregion.snapshots.changes import compare_graphs
from pytest_fxregion.snapshots.graph import REGION, Graph, Node
from tests.unit.snapshots.random_graphs import Edit, edit, random_graph, random_sum, renamed

# Names are changed on purpose, and an edit of the order of nodes is none of these.
IGNORED = {"renumbered", "renamed"}


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(8, 80), st.integers(0, 6), st.sampled_from([0, 5]))
def test_random_edits_are_found_exactly(seed: int, size: int, edits: int, offset: int) -> None:
    rng = Random(seed)
    old = random_graph(rng, size)
    new, spared = list(old), set[str]()
    wanted: list[Edit] = []
    for serial in range(edits):
        new, made = edit(rng, new, spared, serial)
        wanted += [made] if made else []
    other = renamed(new, offset)
    names = {before.name: after.name for before, after in zip(new, other, strict=True)}

    changes = compare_graphs("joint", Graph("G", tuple(old)), Graph("G", tuple(other))).changes
    assume(all(change.kind != "region" for change in changes))  # emptied by two edits together
    found = Counter(
        (change.kind, change.subject, *_sides(change.kind, change.before, change.after))
        for change in changes
        if change.kind not in IGNORED
    )
    assert found == Counter(
        (
            made.kind,
            names.get(made.subject, made.subject),
            *_sides(made.kind, made.before, made.after),
        )
        for made in wanted
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), st.sampled_from([0, 1, 7]))
def test_renumbering_alone_is_nothing_else(seed: int, size: int, offset: int) -> None:
    old = random_graph(Random(seed), size)
    new = renamed(old, offset)
    changes = compare_graphs("joint", Graph("G", tuple(old)), Graph("G", tuple(new))).changes
    assert {change.kind for change in changes} <= {"renumbered"}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12))
def test_a_sum_in_another_order_is_one_change(seed: int, terms: int) -> None:
    rng = Random(seed)
    old, new = random_sum(rng, terms), random_sum(rng, terms)
    changes = compare_graphs("joint", Graph("G", tuple(old)), Graph("G", tuple(new))).changes
    assert {change.kind for change in changes} <= {"order", "moved", "renumbered"}
    orders = [change.subject for change in changes if change.kind == "order"]
    assert orders in ([], ["add_2"])


GROUPS: dict[str, tuple[Callable[[str, int], str], list[tuple[str, str]]]] = {
    # What becomes of groups 0 and 1, and how that is told: kind of change, before, after.
    "renamed": (lambda group, _: "9" if group == "0" else group, [("0", "9")]),
    "split": (lambda group, k: "89"[k % 2] if group == "0" else group, [("0", "8, 9")]),
    "merged": (lambda group, _: "9" if group in ("0", "1") else group, [("0, 1", "9")]),
    "vanished": (lambda group, _: "" if group == "0" else group, [("0", "")]),
    "appeared": (lambda group, _: group or "9", [("", "9")]),
}


@pytest.mark.parametrize("what", GROUPS)
@pytest.mark.parametrize("of", ["region", "piece"])
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_what_becomes_of_a_whole_group_is_one_change(what: str, of: str, seed: int) -> None:
    rng = Random(seed)
    become, told = GROUPS[what]
    plain = random_graph(rng, 40)
    groups = {node.name: rng.choice(("0", "1", "")) for node in plain if node.op == "call"}
    members = [name for name, group in groups.items() if group == "0"]
    assume(len(members) > 1 and {"1", ""} <= set(groups.values()))
    numbers = {name: k for k, name in enumerate(members)}
    old = [grouped(node, of, groups.get(node.name, "")) for node in plain]
    new = [
        grouped(node, of, become(groups[node.name], numbers.get(node.name, 0)))
        if node.name in groups
        else node
        for node in plain
    ]
    changes = compare_graphs("joint", Graph("G", tuple(old)), Graph("G", tuple(new))).changes
    found = [(change.kind, _sorted(change.before), _sorted(change.after)) for change in changes]
    # Pieces are numbered as they come, so that another name alone is none.
    expected = [] if (what, of) == ("renamed", "piece") else [(of, *sides) for sides in told]
    assert found == expected


def grouped(node: Node, of: str, group: str) -> Node:
    if of == "piece":
        return replace(node, piece=group)
    tags = [tag for tag in node.tags if tag[0] != REGION]
    return replace(node, tags=((REGION, group), *tags) if group else tuple(tags))


def _sorted(names: str) -> str:
    return ", ".join(sorted(names.split(", ")))


def _sides(kind: str, before: str, after: str) -> tuple[str, str]:
    # Arguments, operands and what a sum is of have names that were changed on purpose.
    if kind == "gradient accumulation":
        return before.partition(" = ")[0], after.partition(" = ")[0]
    return ("", "") if kind in {"arguments", "order"} else (before, after)
