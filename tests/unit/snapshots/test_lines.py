"""The line diff: it is right on any two texts, and fast on large ones that differ everywhere."""

from __future__ import annotations

import difflib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fxregion.snapshots.lines import changed_blocks, longest_increasing, unified

texts = st.lists(st.sampled_from("abcdefgh"), max_size=60)


@given(texts, texts)
def test_replacing_the_blocks_gives_the_other_text(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for i1, i2, j1, j2 in changed_blocks(old, new):
        assert i1 >= at
        made += old[at:i1]
        assert len(made) == j1
        made += new[j1:j2]
        at = i2
    assert made + old[at:] == new


@given(texts)
def test_equal_texts_have_no_blocks(text: list[str]) -> None:
    assert changed_blocks(text, list(text)) == []


def test_hunks_show_context_and_positions() -> None:
    old, new = list("abcdefghij"), list("abcdXfghij")
    assert list(unified(old, new)) == ["@@ -3,5 +3,5 @@", " c", " d", "-e", "+X", " f", " g"]


def test_far_changes_are_separate_hunks() -> None:
    old = [str(k) for k in range(40)]
    new = [*old[:5], "x", *old[6:30], *old[31:]]
    assert [line for line in unified(old, new) if line.startswith("@@")] == [
        "@@ -4,5 +4,5 @@",
        "@@ -29,5 +29,4 @@",
    ]


def test_a_line_less_in_equal_layers_is_found_where_it_is() -> None:
    old = [str(k % 40) for k in range(4000)]
    new = [*old[:2000], *old[2001:]]
    assert changed_blocks(old, new) == [(2000, 2001, 2000, 2000)]


def test_texts_that_differ_everywhere_are_not_left_to_difflib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(difflib, "SequenceMatcher")  # which takes minutes
    old = [f"mul_{k} = mul(add_{k}, x)" for k in range(50_000)]
    new = [f"mul_{k + 1} = mul(add_{k + 1}, y)" for k in range(50_000)]
    assert changed_blocks(old, new) == [(0, 50_000, 0, 50_000)]


@given(st.lists(st.integers(0, 50), max_size=30))
def test_longest_increasing_is_increasing_and_longest(values: list[int]) -> None:
    found = [values[k] for k in longest_increasing(values)]
    assert all(a < b for a, b in pairwise(found))
    best = [1] * len(values)
    for k, value in enumerate(values):
        best[k] = 1 + max((best[j] for j in range(k) if values[j] < value), default=0)
    assert len(found) == max(best, default=0)
