"""Random edits of random graphs are found exactly: nothing missed, nothing else claimed."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_fxregion.snapshots.changes import compare_graphs
from pytest_fxregion.snapshots.graph import Graph
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


def _sides(kind: str, before: str, after: str) -> tuple[str, str]:
    # Arguments, operands and what a sum is of have names that were changed on purpose.
    if kind == "gradient accumulation":
        return before.partition(" = ")[0], after.partition(" = ")[0]
    return ("", "") if kind in {"arguments", "order"} else (before, after)
