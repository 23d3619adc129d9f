"""Results that no region has a part in have eager's bits, and those that one has need not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.traceback import annotate

from pytest_fxregion.errors import CheckError
from tests.unit.checks.wrongly_compiled import Compiles, harness, leaf


@pytest.fixture(autouse=True)
def compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._inductor, "standalone_compile", Compiles(lambda body: body))


class Model(nn.Module):
    inside: Tensor
    beside: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inside", torch.zeros(3))
        self.register_buffer("beside", torch.zeros(3))

    def forward(self, x: Tensor, w: Tensor, v: Tensor) -> Any:
        with annotate({"compile_with_inductor": 0}):
            h = x.sin() * w
            self.inside.add_(h.detach())
        self.beside.add_(v.detach())
        return h.relu(), v.exp(), (h > 0), h * 0 + v, self.beside * 2, self.inside * 2


def test_what_comes_of_a_region_is_told_from_what_does_not() -> None:
    run = harness()(Model(), leaf(3), leaf(3), leaf(3))
    assert run.outside == {
        "output[1]",
        "output[4]",
        "gradient of v",
        "beside after the call",
        "output[3]",
        "output[2]",
    }
    run.check_numerics()


def test_so_it_is_of_complex_numbers() -> None:
    def function(z: Tensor, w: Tensor) -> Any:
        with annotate({"compile_with_inductor": 0}):
            h = z * 2
        return h, w * 3

    z, w = (torch.complex(leaf(3).detach(), leaf(3).detach()).requires_grad_() for _ in range(2))
    run = harness()(function, z, w)
    assert run.outside == {"output[1]", "gradient of w"}
    run.check_numerics()


def test_a_gradient_of_three_may_be_summed_in_another_order() -> None:
    # The caller's gradient for `x` itself comes first in eager, and last between graphs.
    def function(x: Tensor) -> Any:
        return x.sin() + x.cos(), x

    run = harness()(function, leaf(3))
    assert run.outside == {"output[0]", "output[1]"}
    run.check_numerics()


def test_gradients_are_told_apart_as_well() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        h = x * 3
        with annotate({"compile_with_inductor": 0}):
            k = w.sin()
        return (h * 2).sum() + k.sum()

    assert harness()(function, leaf(3), leaf(3)).outside == {"gradient of x"}


def test_another_rounding_outside_of_regions_is_a_fault() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        with annotate({"compile_with_inductor": 0}):
            h = x.sin()
        other = x * 3 + 1
        if torch.compiler.is_compiling():
            other = torch.nextafter(other, other + 1)
        return h, other

    with pytest.raises(CheckError, match="no region has a part in it, but 3 of 3") as raised:
        harness()(function, leaf(3).detach()).check_numerics()
    assert "output[0]" not in str(raised.value)
    assert "it comes from how the function was traced" in str(raised.value)


def test_what_eager_does_not_give_twice_is_held_to_the_rule() -> None:
    """As sums by atomic additions on a GPU, in another order each time."""
    calls = []

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        with annotate({"compile_with_inductor": 0}):
            h = x.sin()
        other = x * 3 + 1
        if torch.compiler.is_compiling():
            return h, torch.nextafter(other, other + 1)
        calls.append(1)
        return h, torch.nextafter(other, other - 1) if len(calls) % 2 else other

    run = harness()(function, leaf(3).detach())
    assert run.outside == {"output[1]"}
    run.check_numerics()
    assert [d.against for d in run.differences] == ["float64", "float64"]


def test_nothing_is_asked_where_the_call_does_not_stand_other_numbers() -> None:
    def function(x: Tensor, table: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            place = x.sum() * 2
        return table[place.long()] * 2

    run = harness()(function, torch.tensor([4.0, 4.0]), torch.ones(17))
    assert run.outside == frozenset()
    run.check_numerics()


def test_gradients_of_many_sums_may_be_summed_in_another_order() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 2 + x.sin() + x.exp()

    assert harness()(function, leaf(3)).outside == {"output"}


def test_random_numbers_are_the_same_again() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = nn.functional.dropout(x)
        with annotate({"compile_with_inductor": 0}):
            h = x.sin()
        return h, y

    assert harness()(function, leaf(16).detach()).outside == {"output[1]"}


def test_a_sparse_result_of_no_region_is_told_too() -> None:
    class Graph(nn.Module):
        adjacency: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(3).to_sparse())

        def forward(self, x: Tensor) -> Tensor:
            with annotate({"compile_with_inductor": 0}):
                return x.sin()

    run = harness()(Graph(), leaf(3))
    assert run.outside == {"adjacency after the call"}
    run.check_numerics()
