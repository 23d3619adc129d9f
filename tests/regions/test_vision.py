"""Vision models: a ViT block, a convolutional residual block with batch norm, a U-Net step."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class VisionTransformer(nn.Module):
    """Patches, class token, positions and one pre-norm block with dropout off."""

    def __init__(self, width=8, heads=2, patch=2, patches=4):
        super().__init__()
        self.patch = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, patches + 1, width) / 10)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1) + self.position
        normal = self.norm(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        with annotate({"compile_with_inductor": {"inductor_region": "mlp"}}):
            x = x + self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))
        return self.head(x[:, 0])


class ResidualBlock(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = self.first(x)
        with annotate({"compile_with_inductor": {"inductor_region": "norm"}}):
            h = self.first_norm(h).relu()
        h = self.second(h)
        with annotate({"compile_with_inductor": {"inductor_region": "norm"}}):
            return (self.second_norm(h) + x).relu()


class UNet(nn.Module):
    """One step of denoising: down, middle with the time's embedding, up with a skip connection."""

    def __init__(self, channels=4):
        super().__init__()
        self.inward = nn.Conv2d(2, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.time = nn.Linear(4, channels)
        self.norm = nn.GroupNorm(2, channels)
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.outward = nn.Conv2d(2 * channels, 2, 3, padding=1)

    def forward(self, noisy, time):
        frequencies = torch.tensor([1.0, 0.1], device=noisy.device)
        waves = time[:, None] * frequencies
        shift = self.time(torch.cat((waves.sin(), waves.cos()), dim=-1))[:, :, None, None]
        skip = self.inward(noisy).relu()
        middle = self.down(skip)
        with annotate({"compile_with_inductor": {"inductor_region": "middle"}}):
            middle = nn.functional.silu(self.norm(middle) + shift)
        return self.outward(torch.cat((self.up(middle), skip), dim=1))


def test_vision_transformer(fxregion):
    model = VisionTransformer().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, 3, 4, 4))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'mlp'"]
    # Two residuals; query, key and value are taken from one product.
    assert len(run.joint.gradient_accumulations) == 4


def test_residual_block_in_training_writes_its_buffers(fxregion):
    model = ResidualBlock().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, 4, 5, 5, requires_grad=True))
    run.check()
    written = {d.name for d in run.differences if d.name.endswith("after the call")}
    assert {"first_norm.running_mean after the call", "second_norm.running_var after the call"} <= (
        written
    )
    assert len(run.joint.gradient_accumulations) == 1  # the residual


def test_residual_block_in_evaluation(fxregion):
    model = ResidualBlock().to(fxregion.device).eval()
    with torch.no_grad():
        run = fxregion(model, fxregion.randn(2, 4, 5, 5))
    run.check()
    assert len(run.inference.regions) == 2


def test_unet_step(fxregion):
    model = UNet().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, 2, 4, 4), fxregion.rand(2))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'middle'"]
    assert len(run.joint.gradient_accumulations) == 1  # the skip connection
