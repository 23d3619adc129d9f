"""A wrong kernel is planted: the region, the operation and a script that shows it are named."""

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.fx.traceback import annotate

from pytest_fxregion import FxRegion
from pytest_fxregion.device import Device
from pytest_fxregion.errors import CheckError
from pytest_fxregion.options import STAGES

aten = torch.ops.aten
ROOT = Path(__file__).parents[3]


@contextmanager
def lowered_wrongly(operator: Any, change: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Have Inductor lower an operator to ``change(right result, the lowerings)``."""
    from torch._inductor import config, lowering

    right = lowering.lowerings[operator]
    lowering.lowerings[operator] = lambda *args, **kwargs: change(
        right(*args, **kwargs), lowering.lowerings
    )
    try:
        with config.patch(force_disable_caches=True):
            yield
    finally:
        lowering.lowerings[operator] = right


def negated(right: Any, lowerings: Any) -> Any:
    return lowerings[aten.neg.default](right)


def no_snapshot(*_: Any, **__: Any) -> None:
    raise AssertionError("a wrong result must not be compared with a snapshot")


def failure(folder: Path, function: Callable[..., Any], *inputs: Tensor) -> str:
    """Return the text of the check that fails."""
    fxregion = FxRegion(
        test="tests/test_it.py::test_wrong",
        root=ROOT,
        device=Device("virtual", "cuda:0", "virtual h100 (no GPU)", "h100"),
        stages=STAGES,
        provenance="",
        snapshot=no_snapshot,
        artifacts=folder,
    )
    run = fxregion(function, *inputs)
    with pytest.raises(CheckError) as raised:
        run.check()
    return str(raised.value)


def leaf(*shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return torch.linspace(0.5, 2.5, count, device="cuda").reshape(shape).requires_grad_()


def three_regions(x: Tensor, w: Tensor) -> Tensor:
    with annotate({"compile_with_inductor": "first"}):
        h = x * w + 1
    h = torch.cos(h)
    with annotate({"compile_with_inductor": {"inductor_region": "second"}}):
        h = torch.exp(h * 2) + torch.sin(h)
    h = h.relu()
    with annotate({"compile_with_inductor": {"inductor_region": "third"}}):
        h = (h * w).tanh()
    return h


def status_of(script: str) -> object:
    """Run a script as the command does, whose device is active here already; its exit status."""
    torch._dynamo.reset()
    with patch.object(sys, "argv", [script]), pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    return ended.value.code


def test_the_region_and_the_operation_of_a_wrong_lowering_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lowered_wrongly(aten.sin.default, negated):
        lines = failure(tmp_path, three_regions, leaf(6), leaf(6)).splitlines()
    start = lines.index("wrong: forward inductor_region_1 (region 'second')")
    here = "tests/unit/virtual/on_device_culprit.py"
    code = "h = torch.exp(h * 2) + torch.sin(h)"
    assert lines[start + 1].startswith(f"  {here}:")
    assert lines[start + 1].endswith(f": {code}")
    assert lines[start + 2] == "  kernels: triton_poi_fused_add_exp_mul_sin_0"
    assert lines[start + 4].startswith(f"    aten.sin.default ({here}:")
    assert "result 0: error" in lines[start + 5]
    assert lines[start + 6] == "To see it by itself, run:"
    command, script = lines[start + 7].rsplit(" ", 1)
    assert command == "python -m pytest_fxregion virtual --arch=h100"
    assert not lines[start + 8 :]

    text = Path(script).read_text(encoding="utf-8")
    assert "import pytest_fxregion" not in text
    assert "from pytest_fxregion" not in text
    # With the fault the script shows it, without it nothing.
    capsys.readouterr()
    with lowered_wrongly(aten.sin.default, negated):
        assert status_of(script) == 1
    said = capsys.readouterr().out
    assert "result 0: 6 of 6 elements differ by more than is allowed" in said
    assert said.splitlines()[-1] == "cuda: compiled and eager differ"
    assert status_of(script) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "cuda: no difference"


def test_a_wrong_kernel_of_the_backward_is_found_there(tmp_path: Path) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = torch.sin(x * w)
        return h.sum()

    def larger(right: Any, lowerings: Any) -> Any:
        return lowerings[aten.mul.Tensor](right, 1.001)

    with lowered_wrongly(aten.cos.default, larger):
        text = failure(tmp_path, function, leaf(6), leaf(6))
    assert "wrong: backward inductor_region_0 (region default)" in text
    assert "    aten.cos.default (" in text
    assert "h = torch.sin(x * w)" in text
    assert "output" not in text.partition("wrong:")[0].partition("gradient")[0]


def test_two_wrong_regions_are_both_named_each_with_a_script(tmp_path: Path) -> None:
    def moved(right: Any, lowerings: Any) -> Any:
        return lowerings[aten.add.Tensor](right, 0.01)

    with (
        lowered_wrongly(aten.sin.default, negated),
        lowered_wrongly(aten.tanh.default, moved),
    ):
        text = failure(tmp_path, three_regions, leaf(6).detach(), leaf(6).detach())
    assert "wrong: inference inductor_region_1 (region 'second')" in text
    assert "wrong: inference inductor_region_2 (region 'third')" in text
    assert text.index("aten.sin.default") < text.index("aten.tanh.default")
    written = sorted(path.name for path in (tmp_path / "scripts/tests/test_it").iterdir())
    assert written == ["test_wrong-2.py", "test_wrong.py"]


def test_equal_regions_are_one_fault(tmp_path: Path) -> None:
    def layers(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            with annotate({"compile_with_inductor": 0}):
                x = torch.sin(x * weight)
            x = x.relu()
        return x

    with lowered_wrongly(aten.sin.default, negated):
        text = failure(tmp_path, layers, *(leaf(4).detach() for _ in range(4)))
    assert text.count("\nwrong: ") == 1
    (same,) = [line for line in text.splitlines() if "the same code runs as" in line]
    assert same.count("inductor_region_") == 2


def test_a_difference_that_no_region_makes_is_said_to_be_none_of_theirs(tmp_path: Path) -> None:
    def traced_otherwise(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = x * 2
        return h.sin() * (1.1 if torch.compiler.is_compiling() else 1.0)

    text = failure(tmp_path, traced_otherwise, leaf(3).detach())
    assert "with every region put back to eager the difference is still there" in text
    assert not (tmp_path / "scripts").exists()
