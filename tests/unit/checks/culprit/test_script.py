"""The script makes its inputs from text and shows the difference; here nothing is compiled."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion.checks.culprit.script import Script, write_script
from pytest_fxregion.checks.culprit.shrink import Part, whole
from pytest_fxregion.checks.difference import Difference

LARGE = torch.linspace(-3, 3, 500)


def part_of(function: Callable[..., Any], *inputs: Any) -> Part:
    return whole(make_fx(lambda *args: (function(*args),))(*inputs), inputs)


def some_difference(part: Part) -> list[Difference]:
    return [
        Difference(
            "result 0", "float64", error=1.0, allowed=0.5, where=(1,), shape=(3,), problem="off"
        )
    ]


def script(
    function: Callable[..., Any], *inputs: Any, differences: Any = some_difference
) -> Script:
    return write_script(part_of(function, *inputs), {}, "About it.", differences)


def names(made: Script) -> dict[str, Any]:
    """Run a script's definitions."""
    found: dict[str, Any] = {"__name__": "script"}
    exec(made.text, found)
    return found


def add_all(*tensors: Tensor) -> Any:
    return sum((t.abs() if t.is_complex() else t).double().sum() for t in tensors)


SHARED = torch.arange(20.0)


@pytest.mark.parametrize(
    "inputs",
    [
        (torch.tensor([0.1, -0.0, math.inf, math.nan]),),
        (torch.randn(2, 3), torch.randn(3, dtype=torch.bfloat16), torch.randn(()).half()),
        (torch.tensor([True, False]), torch.tensor([2**53 + 1]), torch.tensor([[1]]).byte()),
        (torch.randn(4, 6).t(), torch.randn(4, 8)[:, ::2], torch.randn(4, 1).expand(4, 5)),
        (torch.randn(3, dtype=torch.complex64), torch.empty(0, 3), torch.ones(2).double()),
        (LARGE, LARGE.bfloat16(), LARGE.to(torch.complex64), LARGE.long(), LARGE.view(25, 20).t()),
        (SHARED[2:8], SHARED[5:14].view(3, 3).t(), SHARED[::3]),
    ],
    ids=["special", "small", "exact", "strided", "odd", "large", "shared"],
)
def test_inputs_are_the_same_again(inputs: tuple[Tensor, ...]) -> None:
    def only_as_they_are(part: Part) -> list[Difference]:
        taken = [each for each in part.inputs if isinstance(each, Tensor)]
        pairs = zip(taken, inputs, strict=True)
        kept = all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)
        return some_difference(part) if kept else []

    made = names(script(add_all, *inputs, differences=only_as_they_are))["operands"]()
    for again, given in zip(made, inputs, strict=True):
        assert (again.dtype, again.shape) == (given.dtype, given.shape)
        assert again.stride() == given.stride()
        assert torch.equal(again.nan_to_num(), given.nan_to_num())
        assert torch.equal(again.isnan(), given.isnan())
    if len(inputs) == 3 and inputs[0].untyped_storage().data_ptr() == SHARED.data_ptr():
        made[0].fill_(7)
        assert 7 in made[1]
        assert 7 in made[2]


def test_large_inputs_are_random_numbers_where_those_show_the_same() -> None:
    made = script(add_all, LARGE)
    assert "from_seed(500, torch.float32)" in made.text
    assert "base64" not in made.text
    (drawn,) = names(made)["operands"]()
    assert torch.equal(drawn, made.part.inputs[0])  # type: ignore[arg-type]


def test_large_inputs_are_bytes_where_random_numbers_do_not() -> None:
    made = script(
        add_all,
        LARGE,
        differences=lambda part: some_difference(part) if part.inputs[0] is LARGE else [],
    )
    assert "base64.b64decode" in made.text
    assert "from_seed" not in made.text


def shown(made: Script, compiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what the script prints and its status, with ``compiled`` for what torch compiles."""
    monkeypatch.setattr(torch, "compile", lambda module, **_: lambda *args: (compiled(*args),))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = names(made)["main"]()
    return status, said.getvalue()


def test_the_difference_is_printed_and_is_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    made = script(lambda x: x.sin(), torch.tensor([1.0, 2.0, 3.0]))
    status, said = shown(made, lambda x: -x.sin(), monkeypatch)
    assert status == 1
    lines = said.splitlines()
    assert lines[0] == ("result 0: 3 of 3 elements differ by more than is allowed, most at [1]")
    assert lines[1].startswith("  eager 0.90929")
    assert "compiled -0.90929" in lines[1]
    assert lines[-1] == "cpu: compiled and eager differ"
    assert shown(made, torch.sin, monkeypatch)[0] == 0


def test_the_element_where_it_was_found_has_a_bound_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def small(part: Part) -> list[Difference]:
        return [
            Difference(
                "result 0", "float64", error=1e-3, allowed=1e-9, where=(1,), shape=(2,), problem=""
            )
        ]

    made = script(lambda x: x * 1, torch.tensor([1e6, 1e-2]), differences=small)
    faulty = torch.tensor([1e6, 1.1e-2])
    assert shown(made, lambda x: faulty, monkeypatch)[0] == 1
    assert (
        shown(script(lambda x: x * 1, torch.tensor([1e6, 1e-2])), lambda x: faulty, monkeypatch)[0]
        == 0
    )


@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_specials_in_other_places_are_shown(
    special: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script(lambda x: x * 2, torch.tensor([1.0, special, 3.0]))
    assert shown(made, lambda x: x * 2, monkeypatch)[0] == 0
    assert shown(made, lambda x: (x * 2).nan_to_num(0, 0, 0), monkeypatch)[0] == 1
    assert shown(made, lambda x: torch.full((3,), special), monkeypatch)[0] == 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_other_kinds_of_numbers_are_shown(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script(lambda x: x.clone(), torch.tensor([1, 0, 1]).to(dtype))
    assert shown(made, lambda x: x.clone(), monkeypatch)[0] == 0
    assert shown(made, lambda x: x * 0, monkeypatch)[0] == 1
