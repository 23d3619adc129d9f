"""Sizes in bytes, symbolic ones among them, and their sums."""

from __future__ import annotations

import pytest

from pytest_fxregion.snapshots.sizes import difference, parse_size, size


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("40", {"": 40}),
        ("64*s27*s77", {"s27*s77": 64}),
        ("s27**2", {"s27**2": 1}),
        ("64*s27 + 8", {"s27": 64, "": 8}),
        ("-s27 + 8", {"s27": -1, "": 8}),
        ("4*s27 - 8*s77", {"s27": 4, "s77": -8}),
        ("4*Max(1, s0 + 2)", {"Max(1, s0 + 2)": 4}),
        ("16*s0 + 16*s0", {"s0": 32}),
    ],
)
def test_a_size_is_a_sum_of_products(text: str, parts: dict[str, int]) -> None:
    assert parse_size(text) == parts


def test_bytes_are_read_out_in_units() -> None:
    assert [size(count) for count in (0, 1023, -40, 1024, -8192, 3 << 20)] == [
        "0 B",
        "1023 B",
        "-40 B",
        "1.0 KiB",
        "-8.0 KiB",
        "3.0 MiB",
    ]


def test_a_difference_says_what_is_more_and_what_is_less() -> None:
    assert difference({"": 4096, "s27": -64}) == "+4.0 KiB - 64*s27 B"
    assert difference({"": -40, "s27": 1}) == "-40 B + s27 B"
    assert difference({"": 0, "s27": 0}) == "as many bytes"
