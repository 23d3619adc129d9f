"""How a spliced graph is called and how it calls its regions."""

from __future__ import annotations

import weakref
from itertools import takewhile

import pytest
import torch

from pytest_fxregion.readable import print_readable
from pytest_fxregion.regional import compile_regions, regional_inductor
from tests.unit.regional.annotated_graphs import Compiles, region, traced

X, Y = torch.arange(4.0), torch.arange(4.0) + 1


def compiled() -> torch.fx.GraphModule:
    marks = {"mul": region(0), "add": region(0)}
    return compile_regions(traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)).graph_module


def test_inputs_or_one_list_of_them(compiles: Compiles) -> None:
    gm = compiled()
    torch.testing.assert_close(gm(X, Y), gm([X, Y]))
    assert gm._boxed_call


def test_list_is_emptied(compiles: Compiles) -> None:
    inputs = [X, Y]
    compiled()(inputs)
    assert inputs == []


def test_operand_is_freed_at_its_last_use(compiles: Compiles) -> None:
    alive: list[bool] = []
    gm = compiled()
    (call,) = [n.target for n in gm.graph.nodes if hasattr(n.target, "fxregion_region")]
    inner = call.boxed

    def watched(operands: list[torch.Tensor]) -> object:
        first = weakref.ref(operands[0])
        result = inner(operands)
        alive.append(first() is not None)
        return result

    call.boxed = watched
    gm([X.clone(), Y])
    assert alive == [False]


def test_hooks_are_called(compiles: Compiles) -> None:
    gm = compiled()
    seen: list[int] = []
    gm.register_forward_hook(lambda *_: seen.append(1))
    gm(X, Y)
    assert seen == [1]


def test_region_can_be_called_with_operands(compiles: Compiles) -> None:
    gm = compiled()
    (call,) = [n.target for n in gm.graph.nodes if hasattr(n.target, "fxregion_region")]
    torch.testing.assert_close(call(X, Y), X * Y + 1)
    torch.testing.assert_close(torch.fx.Interpreter(gm).run(X, Y), gm(X, Y))


def test_either_compiler_convention_is_taken(compiles: Compiles) -> None:
    gm = traced(lambda x: x + 1, X, marks={"add": 0})
    torch.testing.assert_close(regional_inductor(gm, X)(X), X + 1)
    torch.testing.assert_close(regional_inductor(gm, [X])([X]), X + 1)


@pytest.mark.parametrize("structured", [False, True], ids=["flat", "nested inputs"])
def test_text_shows_the_inputs_and_no_list_of_them(compiles: Compiles, structured: bool) -> None:
    """That one list may be passed serves AOTAutograd; to a reader it is in the way."""

    def pair(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return inputs["x"] * inputs["y"] + 1

    flat = traced(lambda x, y: x * y + 1, X, Y, marks={"mul": region(0)})
    flat.graph.set_codegen(torch.fx.graph.CodeGen())
    nested = traced(pair, {"x": X, "y": Y}, marks={"mul": region(0)})
    gm = nested if structured else flat

    def head(gm: torch.fx.GraphModule) -> list[str]:
        text = print_readable(gm, print_output=False).splitlines()
        return list(takewhile(lambda line: "#" not in line, text))

    assert len(head(gm)) == (5 if structured else 2)
    assert head(compile_regions(gm).graph_module)[1:] == head(gm)[1:]
