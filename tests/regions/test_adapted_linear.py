"""Linear layers whose weight is not what is trained: low-rank adapters, int8 weights."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class LoRALinear(nn.Module):
    def __init__(self, inputs=6, outputs=5, rank=2, alpha=4.0):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, inputs) / 3)
        self.up = nn.Parameter(torch.randn(outputs, rank) / 3)
        self.scale = alpha / rank

    def forward(self, x):
        base = self.base(x)
        with annotate({"compile_with_inductor": {"inductor_region": "adapter"}}):
            return base + (x @ self.down.t()) @ self.up.t() * self.scale


class Int8Linear(nn.Module):
    """Weights in int8 with a scale for each output, multiplied in float: weight-only quantising."""

    def __init__(self, inputs=6, outputs=5):
        super().__init__()
        weight = torch.randn(outputs, inputs)
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.scale = nn.Parameter(scale)

    def forward(self, x):
        with annotate({"compile_with_inductor": {"inductor_region": "dequantise"}}):
            weight = self.weight.to(x.dtype) * self.scale
        return x @ weight.t()


def test_only_the_adapter_is_trained(fxregion):
    model = nn.Sequential(LoRALinear(), nn.Tanh(), LoRALinear(inputs=5)).to(fxregion.device)
    run = fxregion(model, fxregion.randn(3, 6))
    run.check()
    assert set(run.gradients) == {"0.down", "0.up", "2.down", "2.up"}
    assert [r.label for r in run.forward.regions] == ["'adapter'"] * 2


def test_int8_weights(fxregion):
    run = fxregion(Int8Linear().to(fxregion.device), fxregion.randn(3, 6, requires_grad=True))
    run.check()
    assert "i8[5, 6]" in run.forward.regions[0].body.print_readable(
        print_output=False, include_stride=True
    )
    assert set(run.gradients) == {"x", "scale"}


def test_int8_weights_inference(fxregion):
    with torch.no_grad():
        run = fxregion(Int8Linear().to(fxregion.device), fxregion.randn(3, 6))
    run.check()
    assert len(run.inference.regions) == 1
