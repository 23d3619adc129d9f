from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

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


@pytest.mark.parametrize("dropped", [0.0, 0.5])  # with random numbers a forward is made anew
def test_what_the_forward_writes_to_is_recomputed_from_as_it_was(dropped: float) -> None:
    # torch's partitioner saves the buffers themselves, and the backward then raises.
    norm = nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(dropped))

    def function(x: Tensor) -> Tensor:
        y: Tensor = checkpoint(lambda t: norm(t.sin()).exp(), x, use_reentrant=True)
        return y.cos()

    fxregion: FxRegion = harness()
    run = fxregion(function, fxregion.randn(6, 6, requires_grad=True))
    run.check()
    assert "running_mean after the call" in str(run.regional.values)
    assert "_native_batch_norm_legit_functional" in run.backward.recomputed
    assert "primals_3_before" in [value.name for value in run.forward.saved_for_backward]


def test_what_the_function_itself_writes_to_is_recomputed_from_as_it_was() -> None:
    def function(x: Tensor, shift: Tensor) -> Tensor:
        y: Tensor = checkpoint(lambda t, s: (t + s).sin(), x, shift, use_reentrant=True)
        shift.mul_(3)
        return y.cos()

    fxregion: FxRegion = harness()
    run = fxregion(function, fxregion.randn(6, requires_grad=True), fxregion.randn(6))
    run.check()
    assert {"add", "sin"} <= run.backward.recomputed.keys()


def keep_all_but_products(_context: Any, op: Any, *_args: Any, **_options: Any) -> CheckpointPolicy:
    if op is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_RECOMPUTE
    return CheckpointPolicy.PREFER_SAVE


def test_what_a_policy_would_rather_save_is_there_for_what_is_recomputed() -> None:
    # The sigmoid's backward reads a detached copy, which is recomputed.
    def row(x: Tensor) -> Tensor:
        return torch.sigmoid(x)[0].clone()

    def function(x: Tensor) -> Tensor:
        contexts = partial(create_selective_checkpoint_contexts, keep_all_but_products)
        y: Tensor = checkpoint(row, x, use_reentrant=False, context_fn=contexts)
        return y

    fxregion: FxRegion = harness()
    run = fxregion(function, fxregion.randn(6, 4, requires_grad=True))
    run.check()
    (saved,) = run.forward.saved_for_backward
    assert saved.name in ("sigmoid", "detach_1")  # the copy in 2.11, where a policy is asked of it
    assert "PREFER_SAVE" in run.forward.text
    assert "MUST_SAVE" not in run.forward.text
