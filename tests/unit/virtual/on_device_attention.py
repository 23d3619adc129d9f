"""scaled_dot_product_attention: the operator that CUDA would choose, and what it computes."""

from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_fxregion.device import virtual

ARCHITECTURE = None
HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64
CUDNN = SDPBackend.CUDNN_ATTENTION
FLASH = SDPBackend.FLASH_ATTENTION
EFFICIENT = SDPBackend.EFFICIENT_ATTENTION
MATH = SDPBackend.MATH
# Since torch 2.14: groups of heads in memory-efficient attention (pytorch#191085), heads of up to
# 256 in cuDNN's, and none of cuDNN's for a single query on Blackwell with 2.14's own cuDNN.
NEW = torch.__version__ >= (2, 14)  # type: ignore[operator]
ONLY_2_14 = NEW and torch.__version__ < (2, 15)  # type: ignore[operator]
OPERATOR = {CUDNN: "cudnn", FLASH: "flash", EFFICIENT: "efficient"}

CASES: list[tuple[str, dict[str, Any], SDPBackend]] = [
    ("h100", {"dtype": HALF}, CUDNN),
    ("h200", {"dtype": HALF}, CUDNN),
    ("b200", {"dtype": HALF}, CUDNN),
    ("a100", {"dtype": HALF}, FLASH),
    ("l4", {"dtype": HALF}, FLASH),
    ("h100", {"dtype": SINGLE}, EFFICIENT),
    ("h100", {"dtype": DOUBLE}, MATH),
    ("h100", {"dtype": HALF, "causal": True}, CUDNN),
    ("a100", {"dtype": HALF, "causal": True}, FLASH),
    ("a100", {"dtype": HALF, "causal": True, "queries": 4}, EFFICIENT),
    ("h100", {"dtype": HALF, "mask": "bool"}, CUDNN),
    ("a100", {"dtype": HALF, "mask": "bool"}, EFFICIENT),
    ("a100", {"dtype": SINGLE, "mask": "float"}, EFFICIENT),
    ("a100", {"dtype": HALF, "grouped": True}, FLASH),
    ("a100", {"dtype": SINGLE, "grouped": True}, EFFICIENT if NEW else MATH),
    ("a100", {"dtype": HALF, "key_heads": 1}, FLASH if NEW else MATH),
    ("h100", {"dtype": HALF, "key_heads": 1}, CUDNN if NEW else MATH),
    ("h100", {"dtype": SINGLE, "key_heads": 1}, EFFICIENT if NEW else MATH),
    ("b200", {"dtype": HALF, "queries": 1}, FLASH if ONLY_2_14 else CUDNN),
    ("h100", {"dtype": HALF, "queries": 1}, CUDNN),
    ("h100", {"dtype": HALF, "head": 12}, FLASH),
    ("h100", {"dtype": HALF, "head": 256}, CUDNN if NEW else FLASH),
    ("a100", {"dtype": HALF, "head": 256}, FLASH),
    ("h100", {"dtype": HALF, "head": 192}, FLASH),
    ("l4", {"dtype": HALF, "head": 200}, EFFICIENT),
    ("h100", {"dtype": SINGLE, "head": 10}, MATH),
    ("h100", {"dtype": HALF, "dropout": 0.25}, CUDNN),
    ("h100", {"dtype": HALF, "dropout": 0.1}, FLASH),
    ("h100", {"dtype": SINGLE, "dropout": 0.1}, EFFICIENT),
]


def _inputs(
    dtype: torch.dtype,
    mask: str | None = None,
    head: int = 16,
    grouped: bool = False,
    queries: int = 8,
    key_heads: int = 4,
    **_: Any,
) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    heads = 2 if grouped else key_heads
    make = {"device": "cuda", "dtype": dtype}
    query = torch.randn(2, queries, 4, head, **make).transpose(1, 2)  # type: ignore[call-overload]
    key, value = (torch.randn(2, heads, 8, head, **make) for _ in range(2))  # type: ignore[call-overload]
    added = None
    if mask == "bool":
        added = torch.rand(2, 1, queries, 8, device="cuda") > 0.3
    elif mask == "float":
        added = torch.randn(queries, 8, **make).requires_grad_()  # type: ignore[call-overload]
    return [t.requires_grad_() for t in (query, key, value)], added


@pytest.mark.parametrize(("arch", "options", "expected"), CASES)
def test_the_operator_of_the_architecture(
    arch: str, options: dict[str, Any], expected: SDPBackend
) -> None:
    operators: list[str] = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        operators.extend(str(n.target) for n in graph.graph.nodes if "attention" in str(n.target))
        return graph.forward

    def attention(*tensors: Any) -> torch.Tensor:
        q, k, v, m = tensors
        return functional.scaled_dot_product_attention(
            q,
            k,
            v,
            m,
            dropout_p=options.get("dropout", 0.0),
            is_causal=options.get("causal", False),
            enable_gqa=options.get("grouped", False),
        )

    with virtual.activate(arch):
        tensors, mask = _inputs(**options)
        wanted = tensors + ([mask] if mask is not None and mask.requires_grad else [])
        state = torch.cuda.get_rng_state()
        out = attention(*tensors, mask)
        grad = torch.randn_like(out)
        grads = torch.autograd.grad(out, wanted, grad)
        if options.get("dropout"):
            torch.cuda.set_rng_state(state)
            assert torch.equal(attention(*tensors, mask), out)
        else:
            with sdpa_kernel(MATH):
                plain = attention(*tensors, mask)
                plain_grads = torch.autograd.grad(plain, wanted, grad)
            loose = 3e-2 if options["dtype"] == HALF else 1e-4
            torch.testing.assert_close(out, plain, rtol=loose, atol=loose)
            torch.testing.assert_close(grads, plain_grads, rtol=loose, atol=loose)

        compiled = torch.compile(
            attention, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep)
        )
        torch.cuda.set_rng_state(state)
        traced = compiled(*tensors, mask)
        assert traced.stride() == out.stride()
        torch.autograd.grad(traced, wanted, grad)
    if expected is MATH:
        assert operators == []
    else:
        name = f"aten._scaled_dot_product_{OPERATOR[expected]}_attention"
        assert operators == [f"{name}.default", f"{name}_backward.default"]


def test_dropout_in_forward_and_backward_is_the_same_mask() -> None:
    with virtual.activate("a100"):
        q, k = (torch.randn(1, 1, 8, 8, device="cuda", dtype=HALF) for _ in range(2))
        v = torch.eye(8, device="cuda", dtype=HALF)[None, None].requires_grad_()
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        out.sum().backward()
        assert v.grad is not None
        # With the identity as value, the output is the dropped-out probabilities themselves.
        torch.testing.assert_close(v.grad[0, 0, :, 0], out[0, 0].sum(0), rtol=2e-2, atol=2e-2)
        assert (out == 0).any()


def test_the_users_choice_holds() -> None:
    with virtual.activate("h100"):
        (q, k, v), _ = _inputs(HALF)
        with sdpa_kernel([EFFICIENT, MATH]):
            assert torch._fused_sdp_choice(q, k, v) == EFFICIENT.value
        with sdpa_kernel([MATH, FLASH], set_priority=True):
            assert torch._fused_sdp_choice(q, k, v) == MATH.value
        with sdpa_kernel([FLASH]), pytest.raises(RuntimeError, match="No available kernel"):
            functional.scaled_dot_product_attention(q.float(), k.float(), v.float())


def _fused_and_exact(arch: str, dtype: torch.dtype, size: float) -> list[list[torch.Tensor]]:
    """Output and gradients of the fused operator, the plain one, and the plain one in float64."""
    with virtual.activate(arch):
        inputs, _ = _inputs(dtype)
        inputs = [(t.detach() * size).requires_grad_() for t in inputs]
        results = []
        for backend, kind in ((EFFICIENT, dtype), (MATH, dtype), (MATH, DOUBLE)):
            given = [t.detach().to(kind).requires_grad_() for t in inputs]
            with sdpa_kernel(backend):
                q, k, v = given
                out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            gradients = torch.autograd.grad(out, given, torch.ones_like(out))
            results.append([t.detach().double().cpu() for t in (out, *gradients)])
    return results


def test_large_scores_cost_no_more_bits_than_the_plain_computation() -> None:
    fused, plain, exact = _fused_and_exact("h100", SINGLE, size=9.0)
    for got, other, true in zip(fused, plain, exact, strict=True):
        assert (got - true).abs().max() <= 2 * (other - true).abs().max()


def test_a_nan_stays_and_a_masked_row_is_zero() -> None:
    with virtual.activate("h100"):
        (q, k, v), _ = _inputs(SINGLE)
        with torch.no_grad():
            q[0, 0, 0] = torch.nan
        mask = torch.ones(8, 8, dtype=torch.bool, device="cuda")
        mask[3] = False
        with sdpa_kernel(EFFICIENT):
            out = functional.scaled_dot_product_attention(q, k, v, mask)
        out.sum().backward()
        assert out[0, 0, 0].isnan().all()
        assert (out[:, :, 3] == 0).all()
        assert q.grad is not None
        assert (q.grad[:, :, 3] == 0).all()
        assert q.grad[1].isfinite().all()
