"""The script that shows a region's failure by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch._inductor.exc import InductorError
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion.errors import RegionError
from pytest_fxregion.regional import compile_regions
from pytest_fxregion.regional.repro import repro_script
from tests.unit.regional.annotated_graphs import Compiles, aten, region, traced

X, Y = torch.ones(3, 4), torch.ones(4, 3).t()


def body(compiles: Compiles) -> torch.fx.GraphModule:
    marks = {"mul": region(0), "add": region(0)}
    (found,) = compile_regions(traced(lambda x, y: (x * y + 1).sin(), X, Y, marks=marks)).regions
    return found.body


class Uncompiled:
    """Stands for ``torch.compile``: notes what it is asked for, and compiles nothing."""

    def __init__(self) -> None:
        self.dynamic: bool | None = None
        self.operands: tuple[torch.Tensor, ...] = ()
        self.results: tuple[torch.Tensor, ...] = ()

    def __call__(self, module: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
        self.dynamic = dynamic

        def call(*operands: Any) -> Any:
            self.operands, self.results = operands, module(*operands)
            assert not torch._inductor.config.epilogue_fusion

        return call


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch, compiles: Compiles) -> Uncompiled:
    stand_in = Uncompiled()
    monkeypatch.setattr(torch, "compile", stand_in)
    return stand_in


def test_script_runs_with_operands_of_the_region_s_layout(
    compiles: Compiles, uncompiled: Uncompiled
) -> None:
    script = repro_script(body(compiles), {"epilogue_fusion": False})
    assert script is not None
    exec(script, {})
    assert [x.stride() for x in uncompiled.operands] == [X.stride(), Y.stride()]
    assert uncompiled.dynamic is False


def test_sizes_that_only_running_tells_fit_each_other(uncompiled: Uncompiled) -> None:
    """``u0 >= 3`` of one operand and ``2*u0`` of another are 3 and 6 in the script."""
    environment, graph = ShapeEnv(), fx.Graph()
    once, twice = graph.placeholder("once"), graph.placeholder("twice")
    with FakeTensorMode(shape_env=environment):
        size = environment.create_unbacked_symint()
        torch._check(size >= 3)
        once.meta["val"], twice.meta["val"] = torch.ones(size), torch.ones(2 * size)
    graph.output((graph.call_function(aten.cat.default, ([once, twice],)),))
    script = repro_script(fx.GraphModule({}, graph), {"epilogue_fusion": False})
    assert script is not None
    exec(script, {})
    assert uncompiled.dynamic is True
    assert [x.shape for x in uncompiled.operands] == [(3,), (6,)]


def test_script_shows_the_failure_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Really compiled: once as a region and once by the script."""
    marks = {"mul": region(0, **{"cpp.cxx": (None, "/no/such/compiler")})}
    with pytest.raises(RegionError, match="InvalidCxxCompiler") as raised:
        compile_regions(traced(lambda x, y: (x * y).sin(), X, Y, marks=marks))
    assert "temporary cache dir kept" not in caplog.text
    (note,) = raised.value.__notes__
    with pytest.raises(InductorError, match="InvalidCxxCompiler"):
        exec(note.partition("\n\n")[2], {})


def test_error_carries_the_script(monkeypatch: pytest.MonkeyPatch, compiles: Compiles) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(torch._inductor, "standalone_compile", fail)
    with pytest.raises(RegionError) as raised:
        body(compiles)
    (note,) = raised.value.__notes__
    assert "torch.ops.aten.mul.Tensor" in note
