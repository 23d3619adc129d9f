"""Errors of elements in bins of powers of two, in roundings."""

from __future__ import annotations

import pytest
import torch

from pytest_fxregion.report.page.histogram import HIGHEST, LOWEST, histogram

EPSILON = torch.finfo(torch.float32).eps
ONES = torch.ones(8)


def place(power: int) -> int:
    """Where the bin is that ends at two to this power."""
    return power - LOWEST + 1


def test_elements_without_an_error_are_in_the_first_bin() -> None:
    found = histogram(ONES, ONES.clone(), ONES.double(), against="float64")
    assert found is not None
    assert found["regional"][0] == found["eager"][0] == 8
    assert sum(found["regional"]) == 8


def test_errors_are_counted_in_roundings_of_the_largest_value() -> None:
    exact = torch.tensor([1.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    regional = torch.tensor([1 + EPSILON, 1 + 3 * EPSILON, 1.0, 0.5 + EPSILON / 2])
    found = histogram(exact.float(), regional, exact, against="float64")
    assert found is not None
    assert found["unit"] == EPSILON
    counts = found["regional"]
    assert (counts[0], counts[place(0)], counts[place(-1)], counts[place(2)]) == (1, 1, 1, 1)


def test_errors_beyond_the_bins_are_in_the_outermost_ones() -> None:
    exact = torch.ones(2, dtype=torch.float64)
    found = histogram(ONES[:2], torch.tensor([2.0, 1.0]), exact + 1e-12, against="float64")
    assert found is not None
    assert found["regional"][place(HIGHEST)] == 1
    assert found["regional"][place(LOWEST)] == 1


def test_against_eager_there_are_no_errors_of_eager() -> None:
    found = histogram(ONES, ONES + EPSILON, ONES.double(), against="eager")
    assert found is not None
    assert "eager" not in found
    assert found["regional"][place(0)] == 8


def test_nan_and_infinities_are_left_out() -> None:
    eager = torch.tensor([1.0, float("nan"), float("inf")])
    found = histogram(eager, eager.clone(), None, against="eager")
    assert found is not None
    assert sum(found["regional"]) == 1


def test_a_nan_of_the_regional_run_alone_is_as_wrong_as_can_be() -> None:
    found = histogram(ONES[:1], torch.tensor([float("nan")]), None, against="eager")
    assert found is not None
    assert found["regional"][place(HIGHEST)] == 1


@pytest.mark.parametrize(
    ("eager", "regional"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
        (torch.ones(2), torch.ones(3)),
        (torch.zeros(2), torch.zeros(2)),
        (torch.ones(0), torch.ones(0)),
        (1.5, 1.5),
    ],
    ids=["integers", "other shapes", "zeros", "nothing", "no tensors"],
)
def test_what_cannot_be_measured_has_no_histogram(eager: object, regional: object) -> None:
    assert histogram(eager, regional, None, against="eager") is None


def test_complex_numbers_are_measured_by_their_size() -> None:
    eager = torch.ones(2, dtype=torch.complex64)
    found = histogram(eager, eager + 1j * EPSILON, None, against="eager")
    assert found is not None
    assert found["regional"][place(0)] == 2
