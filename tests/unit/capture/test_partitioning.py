from __future__ import annotations

import torch
from torch import Tensor

from pytest_fxregion import FxRegion
from tests.unit.test_harness import harness


def test_random_numbers_that_nothing_uses_are_drawn_all_the_same() -> None:
    # Dropout on CUDA is one operation with two results; torch's partitioner raised on it.
    def function(x: Tensor) -> Tensor:
        torch.native_dropout(x.detach(), 0.5, True)
        return torch.native_dropout(x, 0.5, True)[0]

    fxregion: FxRegion = harness()
    run = fxregion(function, fxregion.ones(64, requires_grad=True))
    run.check_numerics(exact=True)
    assert "getitem" not in run.joint.text.split("native_dropout_1")[0]
    assert "getitem" not in run.forward.text.split("native_dropout_1")[0]


def test_a_forwards_random_numbers_are_not_drawn_again_in_the_backward() -> None:
    def function(x: Tensor) -> Tensor:
        return (x + torch.randn(x.shape)).sin()

    fxregion: FxRegion = harness()
    run = fxregion(function, fxregion.ones(4, 6, requires_grad=True))
    run.check_numerics(exact=True)  # and the generator's state
    assert "randn" in run.forward.text
    assert "randn.default" not in run.backward.text
