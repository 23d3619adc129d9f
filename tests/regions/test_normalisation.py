"""Layers that keep weights or activations in bounds; some write to buffers while they do."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class WeightNormalised(nn.Module):
    """Direction and length of each row of the weight are parameters of their own."""

    def __init__(self):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(3, 4))
        self.length = nn.Parameter(torch.rand(3, 1) + 0.5)

    def forward(self, x):
        with annotate({"compile_with_inductor": {"inductor_region": "weight"}}):
            weight = self.direction * (self.length / self.direction.norm(dim=1, keepdim=True))
        return x @ weight.t()


class SpectrallyNormalised(nn.Module):
    """A step of power iteration in each call, its vectors kept in buffers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("left", nn.functional.normalize(torch.randn(3), dim=0))
        self.register_buffer("right", nn.functional.normalize(torch.randn(4), dim=0))

    def forward(self, x):
        with torch.no_grad(), annotate({"compile_with_inductor": {"inductor_region": "power"}}):
            self.right.copy_(nn.functional.normalize(self.weight.t() @ self.left, dim=0))
            self.left.copy_(nn.functional.normalize(self.weight @ self.right, dim=0))
        largest = self.left.clone() @ self.weight @ self.right.clone()
        return x @ (self.weight / largest).t()


class Normalised(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.inward = nn.Linear(4, 6)
        self.norm = norm
        self.outward = nn.Linear(6, 2)

    def forward(self, x):
        h = self.inward(x)
        with annotate({"compile_with_inductor": {"inductor_region": "norm"}}):
            h = self.norm(h).relu()
        return self.outward(h)


def test_weight_of_length_and_direction(fxregion):
    run = fxregion(WeightNormalised().to(fxregion.device), fxregion.randn(2, 4))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'weight'"]
    assert len(run.joint.gradient_accumulations) == 1  # the direction, and its length


def test_power_iteration_writes_its_buffers(fxregion):
    run = fxregion(SpectrallyNormalised().to(fxregion.device), fxregion.randn(2, 4))
    run.check()
    written = {d.name for d in run.differences if d.name.endswith("after the call")}
    assert written == {"left after the call", "right after the call"}
    assert {r.label for r in run.forward.regions} == {"'power'"}


def test_layer_norm(fxregion):
    run = fxregion(Normalised(nn.LayerNorm(6)).to(fxregion.device), fxregion.randn(2, 4))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'norm'"]


def test_fused_rms_norm(fxregion):
    run = fxregion(Normalised(nn.RMSNorm(6)).to(fxregion.device), fxregion.randn(2, 4))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'norm'"]


def test_batch_norm_counts_its_batches(fxregion):
    run = fxregion(Normalised(nn.BatchNorm1d(6)).to(fxregion.device), fxregion.randn(3, 4))
    run.check()
    written = {d.name for d in run.differences if d.name.endswith("after the call")}
    assert "norm.num_batches_tracked after the call" in written
