"""One operator of ``op_db`` on both devices: same sample, same arguments, outputs and gradients.

Imports torch; the virtual device has to be loaded before and active.
"""

from __future__ import annotations

import contextlib
import sys
import types
import unittest
import warnings
from dataclasses import dataclass
from typing import Any

import torch

if "expecttest" not in sys.modules:
    # torch's test utilities import it for a base class that nothing here uses.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules["expecttest"] = stand_in

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Result:
    """What came of one operator with one type: ``passed``, ``skipped`` or ``failed``."""

    op: str
    dtype: str
    outcome: str
    reason: str = ""


def operators() -> list[Any]:
    """Every entry of the operator database, in its order."""
    return list(op_db)


def name_of(op: Any) -> str:
    """The name of an entry with its variant: ``norm.fro``."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def compare(op: Any, dtype_name: str) -> Result:
    """Run the first sample of ``op`` on the CPU and on the virtual device and compare."""
    dtype = DTYPES[dtype_name]
    name = name_of(op)
    if dtype not in op.supported_dtypes("cuda"):
        return Result(name, dtype_name, "skipped", "op_db: the type is not supported on CUDA")
    if dtype not in op.supported_dtypes("cpu"):
        return Result(name, dtype_name, "skipped", "op_db: the type is not supported on the CPU")
    differentiable = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sample = next(iter(op.sample_inputs("cuda", dtype, requires_grad=differentiable)), None)
        except Exception as error:
            return Result(name, dtype_name, "skipped", f"op_db: no sample: {_line(error)}")
        if sample is None:
            return Result(name, dtype_name, "skipped", "op_db: no sample")
        arguments = (sample.input, sample.args, sample.kwargs)
        try:
            with _reference(op):
                expected = _run(op, _moved(arguments, "cpu"), differentiable)
        except Exception as error:
            return Result(name, dtype_name, "skipped", f"fails on the CPU: {_line(error)}")
        try:
            got = _run(op, arguments, differentiable)
            _check(op, expected, got, dtype)
        except Exception as error:
            return Result(name, dtype_name, "failed", f"{type(error).__name__}: {_line(error)}")
    return Result(name, dtype_name, "passed")


def _reference(op: Any) -> contextlib.AbstractContextManager[None]:
    """Have attention computed plainly on the CPU.

    Its fused operator is off by 5e-2 in bfloat16 gradients of this sample (torch 2.15), where the
    plain one and the virtual device's are within 5e-4 of float64.
    """
    if op.name == "nn.functional.scaled_dot_product_attention":
        return sdpa_kernel(SDPBackend.MATH)
    return contextlib.nullcontext()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _moved(values: Any, device: str) -> Any:
    """A copy of every tensor on ``device``; other values as they are."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device, copy=True)
            return moved.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cuda":
            return torch.device(device)
        return value

    return pytree.tree_map(move, values)


def _run(op: Any, arguments: Any, differentiable: bool) -> tuple[list[Any], list[Any]]:
    torch.manual_seed(0)
    first, args, kwargs = arguments
    out = op(first, *args, **kwargs)
    outputs = [v for v in pytree.tree_leaves(out) if isinstance(v, torch.Tensor)]
    gradients: list[Any] = []
    if differentiable:
        wanted = [v for v in outputs if v.requires_grad]
        leaves = [
            v
            for v in pytree.tree_leaves(arguments)
            if isinstance(v, torch.Tensor) and v.requires_grad
        ]
        if wanted and leaves:
            ones = [torch.ones_like(v) for v in wanted]
            gradients = list(torch.autograd.grad(wanted, leaves, ones, allow_unused=True))
    return outputs, gradients


RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform", "rand", "poisson",
    "nn.functional.rrelu", "svd_lowrank", "pca_lowrank", "empty", "empty_like", "empty_strided",
    "empty_permuted", "new_empty", "new_empty_strided", "randperm",
    "nn.functional.multi_head_attention_forward",
}  # fmt: skip
"""Operators whose values are random, or of memory that was never written: shapes are compared."""


def _is_random(op: Any) -> bool:
    return op.name in RANDOM or "dropout" in op.name or "fractional_max_pool" in op.name


def _check(op: Any, expected: Any, got: Any, dtype: torch.dtype) -> None:
    relative, absolute = (2e-2, 2e-2) if dtype == torch.bfloat16 else (1e-4, 1e-5)
    for kind, before, after in zip(("output", "gradient"), expected, got, strict=True):
        if len(before) != len(after):
            raise AssertionError(f"{len(after)} {kind}s, not {len(before)}")
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            if (a is None) != (b is None):
                raise AssertionError(f"{kind} {i} is there on one device only")
            if a is None:
                continue
            if a.shape != b.shape or a.dtype != b.dtype:
                raise AssertionError(
                    f"{kind} {i}: {b.dtype} {list(b.shape)}, not {a.dtype} {list(a.shape)}"
                )
            if not _is_random(op):
                try:
                    torch.testing.assert_close(
                        b.detach().cpu().to_dense(),
                        a.detach().to_dense(),
                        rtol=relative,
                        atol=absolute,
                        equal_nan=True,
                    )
                except AssertionError as error:
                    raise AssertionError(f"{kind} {i}: {error}") from error
