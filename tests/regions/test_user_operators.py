"""Operators that a program brings along: Triton kernels, custom ops, autograd Functions."""

import pytest
import torch
import triton
import triton.language as tl
from torch.fx.traceback import annotate
from torch.library import custom_op, triton_op, wrap_triton


@triton.jit
def scaled_add_kernel(x, y, out, count, scale: tl.constexpr, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < count
    total = tl.load(x + offsets, mask=inside) + scale * tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)


def scaled_add(x, y):
    out = torch.empty_like(x)
    scaled_add_kernel[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel(), scale=3, block=16)
    return out


@triton_op("fxregion_suite::scaled_add", mutates_args=())
def scaled_add_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 16),)
    wrap_triton(scaled_add_kernel)[grid](x, y, out, x.numel(), scale=3, block=16)
    return out


scaled_add_op.register_autograd(lambda context, gradient: (gradient, 3 * gradient))


@custom_op("fxregion_suite::clipped", mutates_args=())
def clipped(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.clamp(-limit, limit)


@clipped.register_fake
def _(x, limit):
    return torch.empty_like(x)


@custom_op("fxregion_suite::leaky", mutates_args=())
def leaky(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, 0.1 * x)


@leaky.register_fake
def _(x):
    return torch.empty_like(x)


def _save_input(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _leaky_backward(ctx, gradient):
    (x,) = ctx.saved_tensors
    return torch.where(x > 0, gradient, 0.1 * gradient)


leaky.register_autograd(_leaky_backward, setup_context=_save_input)


class StraightThrough(torch.autograd.Function):
    """Rounds forward, hands the gradient on unchanged: what quantisation-aware training uses."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        return (x / scale).round() * scale

    @staticmethod
    def backward(ctx, gradient):
        (scale,) = ctx.saved_tensors
        return gradient, (gradient / scale).sum()


@pytest.fixture
def runs_triton(fxregion):
    if fxregion.device.type == "cpu":
        pytest.skip("Triton has no kernels for the CPU")


@pytest.mark.usefixtures("runs_triton")
def test_triton_kernel_in_a_region(fxregion):
    def model(x, y):
        with annotate({"compile_with_inductor": 0}):
            return scaled_add(x.sin(), y) * 2

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(20), fxregion.randn(20))
    run.check()
    assert [r.label for r in run.inference.regions] == ["default"]
    assert any("scaled_add_kernel" in kernel.name for kernel in run.kernels)


@pytest.mark.usefixtures("runs_triton")
def test_triton_operator_with_gradient(fxregion):
    def model(x, y):
        with annotate({"compile_with_inductor": 0}):
            return scaled_add_op(x.sin(), y) * 2

    run = fxregion(
        model, fxregion.randn(20, requires_grad=True), fxregion.randn(20, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]
    assert set(run.gradients) == {"x", "y"}


def test_custom_operator_without_gradient(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": 0}):
            return clipped(x * 2, 0.5) + 1

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(6))
    run.check()
    assert "fxregion_suite.clipped" in run.inference.regions[0].body.code


def test_custom_operator_with_gradient(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": 0}):
            return leaky(x * 2) + x

    run = fxregion(model, fxregion.randn(6, requires_grad=True))
    run.check()
    assert "fxregion_suite.leaky" in run.forward.regions[0].body.code
    assert run.backward.regions
    assert len(run.joint.gradient_accumulations) == 1


def test_autograd_function(fxregion):
    def model(x, scale):
        with annotate({"compile_with_inductor": 0}):
            return StraightThrough.apply(x * 2, scale).tanh()

    run = fxregion(
        model,
        fxregion.randn(6, requires_grad=True),
        fxregion.tensor(0.25, requires_grad=True),
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]
    assert [r.kind for r in run.backward.regions] == ["backward"]
