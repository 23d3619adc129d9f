"""Inductor's kernels for the device, in the interpreter, against eager on the CPU."""
# Triton's decorators have no types, and its kernels' arguments none that Python knows.
# mypy: disable-error-code="untyped-decorator, no-untyped-def"

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

TEMPLATES: dict[str, Any] = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
R = torch.randn


def integers(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def check(
    function: Callable[..., Any],
    *arguments: torch.Tensor,
    tolerance: float = 1e-5,
    options: dict[str, Any] | None = None,
    backward: bool = True,
) -> None:
    """Outputs and gradients of the compiled function on the device are the CPU's eager ones."""

    def copies(device: str) -> list[torch.Tensor]:
        moved = [a.detach().to(device, copy=True) for a in arguments]
        return [a.requires_grad_(a.is_floating_point() and backward) for a in moved]

    def outputs(value: Any) -> list[torch.Tensor]:
        return [value] if isinstance(value, torch.Tensor) else list(value)

    on_cpu, on_device = copies("cpu"), copies("cuda")
    expected = outputs(function(*on_cpu))
    got = outputs(torch.compile(function, fullgraph=True, options=options)(*on_device))
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(
            b.detach().cpu(), a.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    differentiable = [(a, b) for a, b in zip(expected, got, strict=True) if a.requires_grad]
    pairs = [(a, b, R(a.shape, dtype=a.dtype)) for a, b in differentiable]
    if pairs:
        wanted = [[t for t in ts if t.requires_grad] for ts in (on_cpu, on_device)]
        before = torch.autograd.grad([p[0] for p in pairs], wanted[0], [p[2] for p in pairs])
        after = torch.autograd.grad([p[1] for p in pairs], wanted[1], [p[2].cuda() for p in pairs])
        for a, b in zip(before, after, strict=True):
            torch.testing.assert_close(b.cpu(), a, rtol=tolerance * 10, atol=tolerance * 10)


def test_pointwise_functions() -> None:
    names = [
        "exp",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "erf",
        "sqrt",
        "rsqrt",
        "atan",
        "asin",
        "acos",
        "floor",
        "ceil",
        "round",
        "trunc",
        "abs",
        "sign",
        "lgamma",
        "digamma",
        "expm1",
        "exp2",
        "log2",
        "log10",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "erfc",
        "erfinv",
        "isnan",
        "isinf",
        "signbit",
        "frac",
    ]
    special = ["i0", "i1", "i1e", "bessel_j0", "bessel_y1", "erfcx", "ndtri", "modified_bessel_k0"]
    functions = [getattr(torch, n) for n in names] + [getattr(torch.special, n) for n in special]
    functions += [F.gelu, F.silu, F.relu, F.softplus, F.elu, F.mish, F.hardswish]
    x = torch.rand(64) * 0.9 + 0.05
    check(lambda x: [f(x) for f in functions], x, tolerance=1e-4, backward=False)


def test_binary_functions() -> None:
    names = "atan2 fmod remainder pow maximum minimum fmax fmin hypot copysign nextafter div"
    functions = [getattr(torch, n) for n in names.split()]
    x, y = torch.rand(64) + 0.1, torch.rand(64) + 0.1
    check(lambda x, y: [f(x, y) for f in functions], x, y, tolerance=1e-4, backward=False)


def test_integer_arithmetic() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x & y, x | y, x ^ y, x << y, x >> y, x // y, x % y, ~x, -x, (x * 0.7).int()]

    check(function, integers(20, 64) - 10, integers(5, 64) + 1)


def test_nan_inf_and_signed_zero() -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1, -1, 1e-40])

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        clamped = [x.clamp(-1, 1), F.relu(x), torch.maximum(x, y), torch.fmax(x, y)]
        compared = [x != x, x < 1, x >= 0, x.isnan(), torch.where(x > 0, x, 0.0)]
        reduced = [x.amax(), x.amin(), x.sum(), x.argmax(), x.max(0).values, x.softmax(0)]
        return [*clamped, *compared, *reduced, x.nan_to_num(), 1 / x]

    check(function, x, x.flip(0), backward=False)


def test_reductions() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        along = [x.sum(), x.mean(0), x.amax(1), x.amin(), x.prod(1), x.logsumexp(1), x.norm()]
        return [*along, x.var(1), x.std(), (x > 0).any(1), (x > 0).all()]

    check(function, R(9, 37), tolerance=2e-5)


def test_reductions_that_need_a_loop() -> None:
    check(lambda x: [x.sum(-1), x.var(-1), x.softmax(-1)], R(3, 5000), tolerance=1e-4)


def test_softmax_and_norms() -> None:
    check(lambda x: [x.softmax(-1), x.log_softmax(0)], R(9, 37))
    check(lambda x, w, b: F.layer_norm(x, (37,), w, b), R(9, 37), R(37), R(37))
    check(lambda x, w: F.rms_norm(x, (37,), w), R(9, 37), R(37))
    check(lambda x, w, b: F.group_norm(x, 2, w, b), R(3, 4, 5, 5), R(4), R(4))
    check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), R(3, 4, 5, 5), R(4), R(4))


def test_cross_entropy_and_embedding() -> None:
    check(lambda x, y: F.cross_entropy(x, y), R(9, 37), integers(37, 9))
    check(lambda i, w: F.embedding(i, w), integers(11, 3, 4), R(11, 6))


def test_scatter_and_atomics() -> None:
    check(lambda x, i, s: x.scatter_add(0, i, s), R(9, 5), integers(9, 6, 5), R(6, 5))
    check(lambda x, i, s: x.index_add(0, i, s), R(9, 5), integers(9, 6), R(6, 5))
    check(
        lambda x, i, s: [x.index_put((i,), s, accumulate=True), x[i]],
        *(R(9, 5), integers(9, 6), R(6, 5)),
    )


def test_scans() -> None:
    check(lambda x: [x.cumsum(1), x.cumprod(0), x.logcumsumexp(1)], R(9, 37), tolerance=1e-4)
    check(lambda x: [*x.cummax(1)], R(9, 37), backward=False)
    check(lambda x: x.cumsum(-1), R(2, 3000), tolerance=1e-3)


def test_sort_argmax_and_topk() -> None:
    check(lambda x: [*x.sort(1), *x.sort(0, descending=True)], R(9, 37), backward=False)
    check(lambda x: [*torch.sort(x, stable=True, dim=1)], integers(4, 5, 60))
    check(lambda x: [x.argmax(1), x.argmin(0), x.max(1)[1], *x.topk(3)], R(9, 37), backward=False)


def test_shapes_pads_and_pools() -> None:
    check(lambda x, y: torch.cat([x, y * 2, x.sin()], 1), R(5, 3), R(5, 4))
    check(
        lambda x: [F.pad(x, (1, 2, 0, 1)), F.max_pool2d(x, 2), F.avg_pool2d(x, 2), x.roll(1, 3)],
        R(2, 3, 6, 6),
    )


def test_convolution() -> None:
    sample = (R(2, 3, 6, 6), R(4, 3, 3, 3))
    check(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), *sample, tolerance=1e-4)


def test_matmul_templates() -> None:
    check(lambda x, w: F.relu(x @ w + 1), R(32, 48), R(48, 40), tolerance=1e-4, options=TEMPLATES)
    check(torch.bmm, R(3, 32, 48), R(3, 48, 40), tolerance=1e-4, options=TEMPLATES)
    halves = [t.bfloat16() for t in (R(40), R(32, 48), R(48, 40))]
    check(torch.addmm, *halves, tolerance=5e-2, options=TEMPLATES)
    convolution = {"max_autotune": True, "max_autotune_conv_backends": "TRITON"}
    sample = (R(2, 4, 6, 6), R(8, 4, 3, 3))
    check(F.conv2d, *sample, tolerance=1e-4, options=convolution, backward=False)


def test_the_same_candidate_is_chosen_every_time(capfd: pytest.CaptureFixture[str]) -> None:
    from torch._inductor.utils import run_and_get_code

    sources = set()
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(torch.mm, options=TEMPLATES)
        _, (code,) = run_and_get_code(compiled, R(32, 48).cuda(), R(48, 40).cuda())
        sources.add(code[code.index("def call") :])
    assert len(sources) == 1
    assert "triton_" in sources.pop()
    assert "AUTOTUNE" not in capfd.readouterr().err  # no made-up times


def test_low_precision() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        products = [x.half() * y, x.bfloat16() + y.bfloat16(), x.half().softmax(-1)]
        return [*products, F.gelu(x.bfloat16()), (x.bfloat16() * y).float().sum(1)]

    check(function, R(9, 37), R(9, 37), tolerance=2e-2)


def test_casts_to_eight_bits() -> None:
    x = torch.cat(
        [R(200) * 10, torch.tensor([0.489, 0.5, 448.0, -448.0, 2**-9, 2**-10, 0.0, -0.0])]
    )
    types = (torch.float8_e4m3fn, torch.float8_e5m2)
    check(lambda x: [x.to(t).float() for t in types], x, backward=False)


def test_random_numbers_are_tritons_own_philox() -> None:
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(lambda x: torch.rand_like(x))
    out, (code,) = run_and_get_code(compiled, torch.ones(64, device="cuda"))
    assert "tl.rand(" in code or "triton_helpers.rand" in code
    assert out.min() >= 0
    assert out.max() < 1
    assert 0.3 < out.mean() < 0.7


def test_dropout_uses_one_mask_forward_and_backward() -> None:
    x = torch.ones(100, device="cuda", requires_grad=True)
    y = torch.compile(lambda x: F.dropout(x, 0.5) * 2)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())
    assert 0.2 < (y > 0).float().mean() < 0.8


def test_dynamic_shapes() -> None:
    compiled = torch.compile(lambda x: (x.sin() * x.shape[0]).sum(1), dynamic=True)
    for n in (3, 5, 17):
        x = R(n, n + 2)
        torch.testing.assert_close(compiled(x.cuda()).cpu(), (x.sin() * n).sum(1))


def test_a_block_of_a_model() -> None:
    layers = [nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)]
    model = nn.Sequential(*layers)
    x = R(5, 16)
    expected = model(x)
    expected.sum().backward()
    grads = [p.grad for p in model.parameters()]
    model.zero_grad()
    model.cuda()
    out = torch.compile(model)(x.cuda())
    out.sum().backward()
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), grad, rtol=1e-4, atol=1e-4)


def test_flex_attention_forward_and_backward() -> None:
    length = 128
    plain = [R(1, 2, length, 32).requires_grad_() for _ in range(3)]
    tensors = [t.detach().cuda().requires_grad_() for t in plain]
    mask = create_block_mask(
        lambda b, h, q, k: q >= k, 1, 1, length, length, device="cuda", BLOCK_SIZE=64
    )

    def distance(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + (q - k) * 0.01

    query, key, value = tensors
    compiled = torch.compile(flex_attention, fullgraph=True)
    out = compiled(query, key, value, score_mod=distance, block_mask=mask)
    assert isinstance(out, torch.Tensor)
    grad = R(out.shape)
    out.backward(grad.cuda())

    place = torch.arange(length)
    ahead = place[:, None] - place[None]
    bias = torch.where(ahead >= 0, ahead * 0.01, -torch.inf)
    query, key, value = plain
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    expected.backward(grad)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(plain, tensors, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 32),)](x, y, out, x.numel(), BLOCK=32)
    return out


@triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, n, factor, twice, TIMES: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = 0.0
    for _ in range(TIMES):
        total += 1.0
    if twice is not None:
        total = total * 2
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    tl.store(out_ptr + offsets, x * factor * total, mask=inside)


def scale(x: torch.Tensor, factor: float, twice: bool | None) -> torch.Tensor:
    out, n = torch.empty_like(x), x.numel()
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
        x, out, n=n, factor=factor, twice=twice, TIMES=3
    )
    return out


def test_a_users_kernel_runs_in_eager_and_in_a_graph() -> None:
    x, y = R(100).cuda(), R(100).cuda()
    torch.testing.assert_close(add(x, y), x + y)
    compiled = torch.compile(lambda x, y: add(x.sin(), y) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(x, y), (x.sin() + y) * 2)
    one = torch.ones(1, device="cuda")
    torch.testing.assert_close(torch.compile(add, fullgraph=True)(one, one), one + one)


@pytest.mark.parametrize(("twice", "expected"), [(None, 9.0), (True, 18.0)])
def test_a_users_autotuned_kernel_takes_its_first_configuration(
    twice: bool | None, expected: float
) -> None:
    x = R(100).cuda()
    torch.testing.assert_close(scale(x, 3.0, twice), x * expected)
    compiled = torch.compile(lambda x: scale(x.cos(), 3.0, twice), fullgraph=True)
    torch.testing.assert_close(compiled(x), x.cos() * expected)
