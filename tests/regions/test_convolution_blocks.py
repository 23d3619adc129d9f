"""Convolutions as they are stacked today: the arithmetic between them is what is annotated."""

import torch
from torch import nn
from torch.fx.traceback import annotate


def between(name):
    return annotate({"compile_with_inductor": {"inductor_region": name}})


class SeparableBlock(nn.Module):
    """MobileNet's: depthwise and pointwise convolution, channels weighted by their own means."""

    def __init__(self, channels=4):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.squeeze = nn.Linear(channels, 2)
        self.excite = nn.Linear(2, channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        h = self.depthwise(x)
        with between("gate"):
            h = nn.functional.hardswish(h)
            means = h.mean((2, 3))
        weights = self.excite(self.squeeze(means).relu())
        with between("weigh"):
            h = h * nn.functional.hardsigmoid(weights)[:, :, None, None]
        return x + self.pointwise(h)


class ConvNeXtBlock(nn.Module):
    """A wide depthwise convolution, then a perceptron over channels with a learned scale."""

    def __init__(self, channels=4):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, 2 * channels)
        self.down = nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x):
        h = self.depthwise(x).permute(0, 2, 3, 1)
        with between("norm"):
            h = self.norm(h)
        h = self.up(h)
        with between("activation"):
            h = nn.functional.gelu(h)
        h = self.down(h)
        with between("residual"):
            return x + (h * self.scale).permute(0, 3, 1, 2)


class GatedDilatedConvolution(nn.Module):
    """WaveNet's layer: it sees the past only, in growing steps, and gates itself."""

    def __init__(self, channels=3, dilation=2):
        super().__init__()
        self.past = dilation
        self.convolution = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        h = self.convolution(nn.functional.pad(x, (self.past, 0)))
        with between("gate"):
            filtered, gate = h.chunk(2, dim=1)
            h = filtered.tanh() * gate.sigmoid()
        skip = self.skip(h)
        return x + skip, skip


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, x):
        h = self.features(x)
        with between("shuffle"):
            larger = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            return nn.functional.pixel_shuffle(h, 2) + larger


def labels(regions):
    return [region.label for region in regions]


def test_separable_block(fxregion):
    run = fxregion(SeparableBlock().to(fxregion.device), fxregion.randn(2, 4, 4, 4))
    run.check()
    assert labels(run.forward.regions) == ["'gate'", "'weigh'"]
    assert len(run.joint.gradient_accumulations) == 1  # weighted, and the means of it


def test_convnext_block(fxregion):
    run = fxregion(
        ConvNeXtBlock().to(fxregion.device), fxregion.randn(1, 4, 4, 4, requires_grad=True)
    )
    run.check()
    assert labels(run.forward.regions) == ["'norm'", "'activation'", "'residual'"]


def test_gated_dilated_convolution(fxregion):
    run = fxregion(
        GatedDilatedConvolution().to(fxregion.device), fxregion.randn(2, 3, 6, requires_grad=True)
    )
    run.check()
    assert labels(run.forward.regions) == ["'gate'"]
    assert len(run.joint.gradient_accumulations) == 2  # the input, and the skip that is returned


def test_super_resolution(fxregion):
    run = fxregion(
        SuperResolution().to(fxregion.device), fxregion.randn(1, 1, 3, 3, requires_grad=True)
    )
    run.check()
    assert labels(run.forward.regions) == ["'shuffle'"]


def test_super_resolution_of_any_size(fxregion):
    x = fxregion.randn(1, 1, 3, 5)
    for dimension in (2, 3):
        torch._dynamo.mark_dynamic(x, dimension)
    with torch.no_grad():
        run = fxregion(SuperResolution().to(fxregion.device), x)
    run.check()
    assert labels(run.inference.regions) == ["'shuffle'"]
