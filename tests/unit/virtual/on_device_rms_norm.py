"""RMS normalisation: the fused operators of a CUDA build, against the CPU's composite."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.traceback import annotate
from torch.nn import functional

from pytest_fxregion.regional import regional_inductor

SINGLE, HALF = torch.float32, torch.bfloat16
FORWARD = torch.ops.aten._fused_rms_norm.default
BACKWARD = torch.ops.aten._fused_rms_norm_backward.default
LOOSE = {SINGLE: 1e-5, HALF: 2e-2, torch.float16: 2e-3, torch.float64: 1e-12}

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "permuted": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "sliced": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "expanded": lambda x: x[:1].expand_as(x),
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
}


def _close(got: Any, expected: Any, dtype: torch.dtype) -> None:
    torch.testing.assert_close(
        got, expected, rtol=LOOSE[dtype], atol=LOOSE[dtype], check_device=False
    )


def _layouts(results: tuple[torch.Tensor | None, ...]) -> list[Any]:
    return [None if r is None else (r.shape, r.stride(), r.dtype, r.device) for r in results]


@pytest.mark.parametrize("dtype", LOOSE)
@pytest.mark.parametrize("shape", [(8,), (4, 8)])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("eps", [None, 0.25])
def test_values_and_gradients_are_the_composites(
    dtype: torch.dtype, shape: tuple[int, ...], weighted: bool, eps: float | None
) -> None:
    # Rows small enough that the default epsilon shows.
    rows = torch.randn(2, 3, 4, 8, dtype=dtype) * 1e-3
    scale = [torch.randn(shape, dtype=dtype)] if weighted else []
    grad = torch.randn_like(rows)

    def run(device: str) -> list[torch.Tensor]:
        leaves = [t.to(device).requires_grad_() for t in (rows, *scale)]
        out = functional.rms_norm(leaves[0], shape, leaves[1] if weighted else None, eps)
        if device == "cuda":
            assert out.grad_fn is not None
            assert out.grad_fn.name() == "FusedRmsNormBackward0"
        return [out, *torch.autograd.grad(out, leaves, grad.to(device))]

    on_cpu, on_device = run("cpu"), run("cuda")
    assert on_device[0].is_cuda
    for a, b in zip(on_cpu, on_device, strict=True):
        # The gradient of such a row is as large as the row is small.
        size = a.detach().abs().max().clamp(min=1)
        _close(b.detach().cpu() / size, a.detach() / size, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("weighted", [True, False])
def test_layouts_and_types_are_those_of_fake_tensors(
    layout: str, dtype: torch.dtype, weighted: bool
) -> None:
    def run(
        x: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        out, rstd = FORWARD(x, [4, 8], weight, None)
        both: tuple[torch.Tensor | None, ...] = BACKWARD(
            grad, x, [4, 8], rstd, weight, [True, weighted]
        )
        return out, rstd, *both

    x = LAYOUTS[layout](torch.randn(2, 3, 4, 8, device="cuda", dtype=dtype))
    weight = torch.randn(4, 8, device="cuda", dtype=dtype) if weighted else None
    for grad in (torch.randn(2, 3, 4, 8, device="cuda", dtype=dtype), torch.randn_like(x)):
        results = run(x, grad, weight)
        mode = FakeTensorMode()
        with mode:
            fake = run(*(t if t is None else mode.from_tensor(t) for t in (x, grad, weight)))  # type: ignore[arg-type]
        assert _layouts(results) == _layouts(fake)
        assert results[1] is not None
        assert results[1].dtype == SINGLE


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_only_the_wanted_gradients_are_computed(wanted: tuple[bool, bool]) -> None:
    x, weight = torch.randn(2, 8, device="cuda"), torch.randn(8, device="cuda")
    rstd = FORWARD(x, [8], weight, None)[1]
    whole = BACKWARD(x, x, [8], rstd, weight, [True, True])
    for got, expected, is_wanted in zip(
        BACKWARD(x, x, [8], rstd, weight, list(wanted)), whole, wanted, strict=True
    ):
        assert torch.equal(got, expected) if is_wanted else got is None


@pytest.mark.parametrize("rows", [(), (0,)])
def test_one_row_and_none(rows: tuple[int, ...]) -> None:
    x = torch.randn(*rows, 8, device="cuda", requires_grad=True)
    weight = torch.randn(8, device="cuda", requires_grad=True)
    grads = torch.autograd.grad(functional.rms_norm(x, (8,), weight).sum(), [x, weight])
    plain = [t.detach().cpu().requires_grad_() for t in (x, weight)]
    out = functional.rms_norm(plain[0], (8,), plain[1])
    _close(grads, torch.autograd.grad(out.sum(), plain), SINGLE)


def test_second_derivatives() -> None:
    def twice(device: str) -> torch.Tensor:
        x = rows.to(device).requires_grad_()
        (grad,) = torch.autograd.grad(
            functional.rms_norm(x, (8,)).pow(3).sum(), x, create_graph=True
        )
        return torch.autograd.grad(grad.pow(2).sum(), x)[0]

    rows = torch.randn(3, 8, dtype=torch.float64)
    _close(twice("cuda"), twice("cpu"), torch.float64)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("weighted", [True, False])
def test_graphs_have_the_fused_operators_and_regions_compile_them(
    dtype: torch.dtype, weighted: bool
) -> None:
    graphs: list[list[str]] = []

    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append([str(n.target) for n in graph.graph.nodes if "rms_norm" in str(n.target)])
        done = regional_inductor(graph, *inputs)
        calls = [n for n in done.graph.nodes if n.op == "call_function"]
        assert "inductor_region_0" in [getattr(n.target, "__name__", "") for n in calls]
        return done

    norm = torch.nn.RMSNorm(8, elementwise_affine=weighted).to(dtype)
    if weighted:
        torch.nn.init.normal_(norm.weight)
    rows = torch.randn(4, 8, dtype=dtype)

    def block(x: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": {"inductor_region": 0}}):
            return norm(x).sin()  # type: ignore[no-any-return]

    def gradients(function: Callable[..., torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
        x.requires_grad_()
        out = function(x)
        return [out, *torch.autograd.grad(out.float().sum(), [x, *norm.parameters()])]

    expected = gradients(block, rows.clone())
    norm.cuda()
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    got = gradients(torch.compile(block, backend=backend), rows.cuda())
    _close([t.detach() for t in got], [t.detach() for t in expected], dtype)
    assert graphs == [["aten._fused_rms_norm.default"], ["aten._fused_rms_norm_backward.default"]]
