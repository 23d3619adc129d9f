"""Results of two eager runs: which of them differ by more than rounding explains."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_fxregion.checks.repeats import not_repeated

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
        (1.0, 1.001),
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
        (ONES.bfloat16(), ONES.bfloat16() * 1.01),
        (ONES, torch.ones(3)),
        (ONES, None),
        (ONES.to_sparse(), ONES.to_sparse() * 2),
        (torch.zeros(0), torch.zeros(0)),
        (10**400, 10**401),
        ("text", "other"),
    ],
)
def test_what_rounding_explains_and_what_has_another_form_is_left_to_the_comparison(
    first: Any, second: Any
) -> None:
    assert not not_repeated({"y": first}, {"y": second})
