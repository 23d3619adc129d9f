"""Results of two eager runs: which of them differ by more than rounding explains."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_fxregion.checks.repeats import not_by_rounding, not_repeated

ONES = torch.ones(2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ONES, ONES * 1.001),
        (ONES * torch.nan, ONES),
        (ONES.long(), ONES.long() + 1),
        (ONES.bool(), ~ONES.bool()),
        (ONES * 1j, ONES * 1.001j),
        (ONES.bfloat16(), ONES.bfloat16() * 1.2),
        (10_000, 10_001),
        (10**12, 10**12 + 1),
        (10**400, 10**401),
        (1.0, 1.001),
        (1.0, float("nan")),
    ],
)
def test_what_differs_by_more_than_rounding_is_named(first: Any, second: Any) -> None:
    assert not_repeated({"y": first}, {"y": second}).keys() == {"y"}
    assert not not_repeated({"y": first}, {"y": first})
    assert not not_repeated({"gradient of y": first}, {"gradient of y": second})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ONES, ONES + 2e-7),
        (1.0, 1.0 + 2e-7),  # taken from a tensor in float32
        (ONES.bfloat16(), ONES.bfloat16() * 1.01),
        (ONES, torch.ones(3)),
        (ONES, None),
        (ONES.to_sparse(), ONES.to_sparse() * 2),
        (torch.zeros(0), torch.zeros(0)),
        ("text", "other"),
    ],
)
def test_what_rounding_explains_and_what_has_another_form_is_left_to_the_comparison(
    first: Any, second: Any
) -> None:
    assert not not_repeated({"y": first}, {"y": second})


def test_what_two_runs_in_float64_agree_on_by_as_much_more_comes_of_rounding() -> None:
    """Sums of large terms that cancel, in no fixed order: all of the result is rounding."""
    found = {"y": 1e-3, "index": 3.0, "counted": 3.0, "elsewhere": 3.0}
    one = {"y": torch.tensor([1e-12]), "index": torch.tensor(4), "counted": 1}
    other = {"y": torch.tensor([-1e-12]), "index": torch.tensor(4), "counted": 2}
    assert not_by_rounding(found, one, other) == {"counted": 3.0, "elsewhere": 3.0}
