"""Regions that compute with Python floats, which tracing makes tensor operations of."""

from __future__ import annotations

import torch
import torch._dynamo.config
import torch._inductor.config
from torch import Tensor
from torch.fx.traceback import annotate

from tests.unit.checks.test_accumulation_oracle import leaf, run_of


def test_a_batch_norm_in_a_region_has_a_dynamic_batch() -> None:
    # AOTAutograd's pass for Python floats raised KeyError: s77, which no operand of a piece is.
    norm = torch.nn.BatchNorm1d(6)

    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            hidden: Tensor = norm(x)
            return hidden * (x.shape[0] / 3)

    run = run_of(function, leaf(4, 6), dynamic=True)
    run.check_numerics()
    assert len(run.regions) == 2


def test_a_float_that_a_tensor_held_goes_from_region_to_region() -> None:
    # The node was `item()` and is a tensor, still said to be the symbol: AttributeError on tracing.
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": {"inductor_region": "a"}}):
            factor = x.sum().item()
            scaled = x * factor
        waves = scaled.sin()
        with annotate({"compile_with_inductor": {"inductor_region": "b"}}):
            return waves * factor + factor

    x = torch.linspace(0, 1, 5)
    torch._dynamo.reset()
    with (
        torch._dynamo.config.patch(capture_scalar_outputs=True),
        torch._inductor.config.patch(disable_cpp_codegen=True),
    ):
        result = torch.compile(function, backend="fxregion", fullgraph=True)(x)
    torch.testing.assert_close(result, function(x))
