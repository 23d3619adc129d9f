"""Numbers of few bits: rounding that lets gradients through, and weights that are unpacked."""

import torch
from torch.fx.traceback import annotate


def test_fake_quantisation_per_channel(fxregion):
    def layer(x, w):
        with annotate({"compile_with_inductor": {"inductor_region": "round"}}):
            scale = w.detach().abs().amax(dim=1, keepdim=True) / 7
            rounded = (w / scale).round().clamp(-8, 7) * scale
            quantised = w + (rounded - w).detach()
        return x @ quantised.t()

    run = fxregion(
        layer, fxregion.randn(2, 4, requires_grad=True), fxregion.randn(3, 4, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'round'"]
    # Rounding is taken out of the backward, so the weight's gradient is the product's alone.
    assert not run.joint.gradient_accumulations


def test_activations_quantised_by_their_largest(fxregion):
    def layer(x, w, w_scale):
        with annotate({"compile_with_inductor": {"inductor_region": "quantise"}}):
            scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-6) / 127
            rounded = (x / scale).round().to(torch.int8)
        product = rounded.to(torch.float32) @ w.to(torch.float32).t()
        with annotate({"compile_with_inductor": {"inductor_region": "dequantise"}}):
            return product * scale * w_scale

    with torch.no_grad():
        run = fxregion(
            layer,
            fxregion.randn(2, 4),
            fxregion.randint(-127, 128, (3, 4), dtype=torch.int8),
            fxregion.rand(3),
        )
    run.check()
    assert [r.label for r in run.inference.regions] == ["'quantise'", "'dequantise'"]


def test_weights_of_four_bits_are_unpacked(fxregion):
    def layer(x, packed, scale):
        with annotate({"compile_with_inductor": {"inductor_region": "unpack"}}):
            low, high = packed & 0xF, packed >> 4
            weight = torch.stack((low, high), dim=-1).flatten(-2).to(x.dtype) - 8
            weight = (weight.unflatten(-1, (2, 4)) * scale[..., None]).flatten(-2)
        return x @ weight.t()

    run = fxregion(
        layer,
        fxregion.randn(2, 8, requires_grad=True),
        fxregion.randint(0, 256, (3, 4), dtype=torch.uint8),
        fxregion.rand(3, 2, requires_grad=True),
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'unpack'"]
    assert set(run.gradients) == {"x", "scale"}
