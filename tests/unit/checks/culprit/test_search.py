"""Which pieces are wrong: those without which the results are right.  Inductor is stood in for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.traceback import annotate

from pytest_fxregion.checks.culprit import script_name, search, trial
from pytest_fxregion.errors import CheckError
from tests.unit.checks.wrongly_compiled import (
    Change,
    Compiles,
    harness,
    leaf,
    scaled,
    with_another,
)

aten = torch.ops.aten


def chain(x: Tensor, *weights: Tensor) -> Tensor:
    """A region for each weight, each with an id of its own."""
    for number, weight in enumerate(weights):
        with annotate({"compile_with_inductor": {"inductor_region": number}}):
            x = torch.sin(x * weight) if number % 2 else torch.tanh(x + weight)
        x = x.relu()
    return x


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], Compiles]:
    """Plant a fault: regions and their parts are compiled to what ``change`` makes of them."""

    def plant(change: Change) -> Compiles:
        compiles = Compiles(change)
        monkeypatch.setattr(torch._inductor, "standalone_compile", compiles)
        monkeypatch.setattr(
            trial, "_compiled", lambda part, configs: trial._run(change(part.module), part.inputs)
        )
        return compiles

    return plant


def failure(function: Callable[..., Any], *inputs: Tensor, **options: Any) -> str:
    run = harness()(function, *inputs)
    with pytest.raises(CheckError) as raised:
        run.check_numerics(**options)
    return str(raised.value)


def named(text: str) -> list[str]:
    """Return the pieces that a failure says are wrong."""
    return [line[7:] for line in text.splitlines() if line.startswith("wrong: ")]


def test_of_many_pieces_the_wrong_ones_are_named(planted: Any) -> None:
    planted(with_another(aten.cos.default, aten.sin.default))
    text = failure(layers_of_all_sizes, *(leaf(n).detach() for n in (2, 2, 3, 4, 5, 6)))
    assert named(text) == [f"inference inductor_region_{n} (region {n})" for n in (1, 2, 3)]
    assert text.count("    aten.sin.default (") == 3
    assert text.splitlines()[-1] == "there may be more wrong regions: the search ends here"


def layers_of_all_sizes(x: Tensor, *weights: Tensor) -> list[Tensor]:
    """Regions of which no two are equal, all but the first wrong where a sine is."""
    with annotate({"compile_with_inductor": {"inductor_region": 0}}):
        results = [x.tanh()]
    for number, weight in enumerate(weights, 1):
        with annotate({"compile_with_inductor": {"inductor_region": number}}):
            results.append(torch.sin(weight * x.sum()))
    return results


def test_equal_pieces_are_one_fault(planted: Any) -> None:
    planted(with_another(aten.cos.default, aten.sin.default))
    text = failure(chain, *(leaf(3).detach() for _ in range(7)))
    assert named(text) == ["inference inductor_region_1 (region 1)"]
    assert (
        "  the same code runs as inference inductor_region_3 (region 3), "
        "inference inductor_region_5 (region 5)" in text
    )


def products(x: Tensor, w: Tensor) -> Tensor:
    """Three regions whose relative errors add up."""
    with annotate({"compile_with_inductor": {"inductor_region": 0}}):
        h = x * w
    with annotate({"compile_with_inductor": {"inductor_region": 1}}):
        h = h * w * 2
    with annotate({"compile_with_inductor": {"inductor_region": 2}}):
        h = h / w
    return h


def test_pieces_that_are_wrong_only_together_are_named_together(planted: Any) -> None:
    planted(scaled(1.002))
    text = failure(products, leaf(3).detach(), leaf(3).detach(), rtol=3e-3)
    # Any two of the three exceed the bound: without the first of one pair, another pair does.
    assert len(named(text)) == 2
    assert text.count("  only together with inference inductor_region_2 (region 2)") == 2
    text = failure(products, leaf(3).detach(), leaf(3).detach(), rtol=5e-3)
    assert named(text) == ["inference inductor_region_0 (region 0)"]
    assert (
        "  only together with inference inductor_region_1 (region 1), "
        "inference inductor_region_2 (region 2)" in text
    )


def test_parts_are_held_to_the_tests_own_tolerance(planted: Any) -> None:
    planted(scaled(1 + 2e-7))
    text = failure(products, leaf(3).detach(), leaf(3).detach(), exact=True)
    assert "aten.mul.Tensor" in text
    assert "by itself" not in text.partition("smallest part")[0]


def test_both_directions_are_searched(planted: Any) -> None:
    planted(with_another(aten.sin.default, aten.cos.default))

    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = x.sin()
        return h * 2

    text = failure(function, leaf(3))
    assert "wrong: backward inductor_region_0 (region default)" in text
    assert "aten.cos.default" in text
    assert "gradient of x" in text
    assert "  output" not in text


def test_a_piece_that_agrees_by_itself_is_named_all_the_same(
    planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(with_another(aten.cos.default, aten.sin.default))
    monkeypatch.setattr(trial, "_compiled", lambda part, _: trial._run(part.module, part.inputs))
    text = failure(chain, *(leaf(3).detach() for _ in range(3)))
    assert "wrong: inference inductor_region_1 (region 1)" in text
    assert "  by itself, on the values of this run, it agrees with eager" in text


def test_a_fault_that_does_not_come_back_is_said_to_be_none_to_repeat(planted: Any) -> None:
    wrong = with_another(aten.cos.default, aten.sin.default)
    compiles: Compiles = planted(lambda body: wrong(body) if compiles.count < 3 else body)
    text = failure(chain, *(leaf(3).detach() for _ in range(3)))
    assert "compiled and run again, the results were right" in text


def test_a_search_that_fails_is_said_and_the_difference_stands(planted: Any) -> None:
    wrong = with_another(aten.cos.default, aten.sin.default)

    def change(body: fx.GraphModule) -> Callable[..., Any]:
        if compiles.count > 2:
            raise ArithmeticError("no more")
        return wrong(body)

    compiles: Compiles = planted(change)
    text = failure(chain, *(leaf(3).detach() for _ in range(3)))
    assert "elements are off by more than is allowed" in text
    assert "which region it is was not found:" in text
    assert "no more" in text


def test_pieces_of_several_graphs_are_told_apart(planted: Any) -> None:
    planted(with_another(aten.cos.default, aten.sin.default))

    def broken(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            x = x.tanh()
        torch._dynamo.graph_break()
        with annotate({"compile_with_inductor": 0}):
            x = x.sin()
        return x * 2

    text = failure(broken, leaf(3).detach())
    assert "wrong: graph 1, inference inductor_region_0 (region default)" in text


def test_a_wrong_write_to_a_buffer_is_found(planted: Any) -> None:
    planted(with_another(aten.cos.default, aten.sin.default))

    class Counting(torch.nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            with annotate({"compile_with_inductor": 0}):
                self.total.add_(x.sin())
            return x * 2

    text = failure(Counting(), leaf(3).detach())
    assert "total after the call: error" in text
    assert "wrong: inference inductor_region_0 (region default)" in text


def test_a_script_is_there_as_long_as_its_test_fails(
    planted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "_why_it_does_not_show", lambda script, file: None)
    compiles: Compiles = planted(with_another(aten.cos.default, aten.sin.default))
    inputs = [leaf(n).detach() for n in (2, 2, 3)]
    with pytest.raises(CheckError, match=r"To see it by itself, run:\npython .*/test_wrong.py$"):
        harness(tmp_path)(layers_of_all_sizes, *inputs).check_numerics()
    folder = tmp_path / "scripts/tests/test_it"
    assert sorted(file.name for file in folder.iterdir()) == ["test_wrong-2.py", "test_wrong.py"]
    compiles.change = lambda body: body
    harness(tmp_path)(layers_of_all_sizes, *inputs).check_numerics()
    assert not list(folder.iterdir())


def test_the_region_is_named_where_its_script_cannot_be_written(
    planted: Any, tmp_path: Path
) -> None:
    compiles: Compiles = planted(with_another(aten.cos.default, aten.sin.default))
    (tmp_path / "scripts").touch()  # stands for any folder that cannot be written
    inputs = [leaf(n).detach() for n in (2, 2)]
    with pytest.raises(CheckError) as raised:
        harness(tmp_path)(layers_of_all_sizes, *inputs).check_numerics()
    text = str(raised.value)
    assert named(text) == ["inference inductor_region_1 (region 1)"]
    assert "  its script could not be written: " in text
    assert str(tmp_path / "scripts") in text
    assert "To see it by itself" not in text
    compiles.change = lambda body: body
    harness(tmp_path)(layers_of_all_sizes, *inputs).check_numerics()


def test_scripts_of_tests_and_runs_have_names_of_their_own() -> None:
    names = {
        script_name(test, run).as_posix()
        for test in ("tests/test_a.py::test_x[1/2]", "tests/test_a.py::TestB::test_x")
        for run in (None, "one", "two")
    }
    assert len(names) == 6
    assert "scripts/tests/test_a/TestB.test_x-one.py" in names
    assert all(name.startswith("scripts/tests/test_a/") for name in names)
