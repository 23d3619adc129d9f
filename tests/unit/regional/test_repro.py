"""The script that shows a region's failure by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_fxregion.errors import RegionError
from pytest_fxregion.regional import compile_regions
from pytest_fxregion.regional.repro import repro_script
from tests.unit.regional.annotated_graphs import Compiles, region, traced

X, Y = torch.ones(3, 4), torch.ones(4, 3).t()


def body(compiles: Compiles) -> torch.fx.GraphModule:
    marks = {"mul": region(0), "add": region(0)}
    (found,) = compile_regions(traced(lambda x, y: (x * y + 1).sin(), X, Y, marks=marks)).regions
    return found.body


def test_script_runs_with_operands_of_the_region_s_layout(
    compiles: Compiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = repro_script(body(compiles), {"epilogue_fusion": False})
    assert script is not None
    seen: list[tuple[int, ...]] = []

    def compile_nothing(module: Callable[..., Any]) -> Callable[..., Any]:
        def call(*operands: torch.Tensor) -> Any:
            seen.extend(operand.stride() for operand in operands)
            assert not torch._inductor.config.epilogue_fusion
            return module(*operands)

        return call

    monkeypatch.setattr(torch, "compile", compile_nothing)
    exec(script, {})
    assert seen == [X.stride(), Y.stride()]


def test_error_carries_the_script(monkeypatch: pytest.MonkeyPatch, compiles: Compiles) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(torch._inductor, "standalone_compile", fail)
    with pytest.raises(RegionError) as raised:
        body(compiles)
    (note,) = raised.value.__notes__
    assert "torch.ops.aten.mul.Tensor" in note
