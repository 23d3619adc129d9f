"""State-space layers: recurrences as `torch.associative_scan`, and as a cumulative sum."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.fx.traceback import annotate


def decayed_sum(left, right):
    """Combine two stretches of ``state = decay * state + driven``."""
    return left[0] * right[0], left[1] * right[0] + right[1]


class ScannedLayer(nn.Module):
    """S5's layer: the scan is an operator of its own, and a region takes it whole."""

    def __init__(self, width=3):
        super().__init__()
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        decay = self.gate(x).sigmoid()
        with annotate({"compile_with_inductor": {"inductor_region": "scan"}}):
            _, state = associative_scan(decayed_sum, (decay, (1 - decay) * x), dim=0)
            return state.tanh()


def time_mix(keys, values, decay):
    """RWKV's average over the past: exponentials of keys, decayed, by two cumulative sums."""
    steps = torch.arange(keys.shape[0], device=keys.device)[:, None]
    with annotate({"compile_with_inductor": {"inductor_region": "mix"}}):
        weight = (keys + steps * decay.exp()).exp()
        return (weight * values).cumsum(0) / weight.cumsum(0)


def scanned_layer(fxregion):
    if fxregion.device.type == "cpu":
        pytest.skip("torch has no pointwise associative scan for the CPU")
    return ScannedLayer().to(fxregion.device)


def test_associative_scan_with_gradients(fxregion):
    model = scanned_layer(fxregion)
    run = fxregion(model, fxregion.randn(4, 3, requires_grad=True))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'scan'"]
    assert {r.label for r in run.backward.regions} == {"'scan'"}
    assert set(run.gradients) == {"x", "gate.weight", "gate.bias"}


def test_associative_scan_inference(fxregion):
    model = scanned_layer(fxregion)
    with torch.no_grad():
        run = fxregion(model, fxregion.randn(4, 3))
    run.check()
    assert [r.label for r in run.inference.regions] == ["'scan'"]


def test_time_mix(fxregion):
    run = fxregion(
        time_mix,
        fxregion.randn(4, 3, requires_grad=True),
        fxregion.randn(4, 3, requires_grad=True),
        fxregion.randn(3, requires_grad=True),
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'mix'"]
    assert len(run.joint.gradient_accumulations) == 1  # the weights, above and below
