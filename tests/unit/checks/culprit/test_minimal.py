"""The smallest failing part of a list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fxregion.checks.culprit.minimal import minimal_failing


def needs(*wanted: int) -> Callable[[Collection[int]], bool]:
    """A test that fails where all the wanted items are there."""
    return lambda items: set(wanted) <= set(items)


def is_minimal(found: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> bool:
    return fails(found) and not any(
        fails(rest) for rest in combinations(found, len(found) - 1) if rest
    )


@pytest.mark.parametrize("position", [0, 1, 31, 62, 63])
def test_one_item_is_found_in_about_two_log_n_tests(position: int) -> None:
    tried = []

    def fails(items: Sequence[int]) -> bool:
        tried.append(list(items))
        return position in items

    assert minimal_failing(range(64), fails) == [position]
    assert len(tried) <= 2 * log2(64)


@given(st.sets(st.integers(0, 19), min_size=1, max_size=4))
def test_items_that_fail_only_together_are_found_together(wanted: set[int]) -> None:
    assert minimal_failing(range(20), needs(*wanted)) == sorted(wanted)


@given(st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=3), min_size=1, max_size=4))
def test_of_several_faults_one_is_found_whole(faults: list[set[int]]) -> None:
    def fails(items: Sequence[int]) -> bool:
        return any(fault <= set(items) for fault in faults)

    assert is_minimal(minimal_failing(range(12), fails), fails)


def test_an_item_that_hides_a_fault_is_no_obstacle() -> None:
    def fails(items: Sequence[int]) -> bool:
        return 3 in items and (7 not in items or len(items) == 10)

    found = minimal_failing(range(10), fails)
    assert is_minimal(found, fails)


def test_order_is_kept_and_no_list_is_tried_twice() -> None:
    tried = []

    def fails(items: Sequence[str]) -> bool:
        tried.append("".join(items))
        return {"b", "e", "g"} <= set(items)

    assert minimal_failing("abcdefgh", fails) == ["b", "e", "g"]
    assert len(tried) == len(set(tried))
    assert all(list(items) == sorted(items) for items in tried)


def test_after_the_limit_the_smallest_known_list_is_returned() -> None:
    tried = []

    def fails(items: Sequence[int]) -> bool:
        tried.append(items)
        return needs(3, 60)(items)

    found = minimal_failing(range(64), fails, limit=5)
    assert {3, 60} <= set(found)
    assert len(tried) == 5


def test_a_single_item_is_what_it_is() -> None:
    assert minimal_failing([5], lambda items: True) == [5]
