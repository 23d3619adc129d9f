"""A region that is recomputed in the backward has the forward's bits; here on the CPU."""

from __future__ import annotations

import pytest

from tests.unit.regional.recomputation import CHECKPOINTS, assert_recomputed_bits_are_the_forwards


@pytest.mark.parametrize("how", CHECKPOINTS)
def test_recomputed_values_are_the_forwards_bit_for_bit(how: str) -> None:
    assert_recomputed_bits_are_the_forwards(how, "cpu")
