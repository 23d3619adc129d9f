"""Activation checkpointing: its tags stand in the joint graph, above every node that has them."""

import pytest
import torch
from torch.fx.traceback import annotate
from torch.utils.checkpoint import checkpoint


def gate(x, w):
    return torch.sigmoid(x @ w)


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["non_reentrant", "reentrant"])
def test_checkpointed_gate(fxregion, use_reentrant):
    def model(x, w):
        with annotate({"compile_with_inductor": 0}):
            scaled = x * 2 + 1
        return checkpoint(gate, scaled, w, use_reentrant=use_reentrant).sum()

    x = fxregion.randn(8, 8, requires_grad=True)
    w = fxregion.randn(8, 8, requires_grad=True)
    run = fxregion(model, x, w)
    run.check()
    assert "# ac_graph_id: 0 - PREFER_RECOMPUTE" in run.joint.text
    assert run.backward.recomputed  # the backward computes the gate again
