"""Random graphs with views, writes, draws, containers and labels compute what they did before."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from pytest_fxregion.regional import compile_regions
from tests.unit.regional.annotated_graphs import Builder, Compiles, annotate, aten, region

PURE = (aten.sin.default, aten.neg.default, aten.clone.default)
VIEWS = (aten.t.default, aten.alias.default)
BINARY = (aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor)
WRITES = (aten.add_.Tensor, aten.mul_.Tensor)
DRAWS = (aten.rand_like.default, aten.uniform_.default)  # the second writes, too


def random_graph(seed: int) -> fx.GraphModule:
    """A graph on 3x3 matrices in which values are viewed, written to, drawn and sorted."""
    r = random.Random(seed)
    b = Builder("x", "y", size=(3, 3))
    made = [b.call(aten.clone.default, b["x"]), b.call(aten.clone.default, b["y"])]
    label: object = None
    writes = r.choice((WRITES, ()))
    for _ in range(r.randint(3, 30)):
        kind = r.random()
        recent = made[-8:]
        if kind < 0.3:
            made.append(b.call(r.choice(PURE), r.choice(recent)))
        elif kind < 0.35:
            made.append(b.call(r.choice(DRAWS), r.choice(recent)))
        elif kind < 0.47:
            made.append(b.call(r.choice(VIEWS), r.choice(recent)))
        elif kind < 0.75:
            made.append(b.call(r.choice(BINARY), r.choice(recent), r.choice(recent)))
        elif kind < 0.9 and writes:
            made.append(b.call(r.choice(writes), r.choice(recent), r.choice((2, 0.5, -1))))
        else:
            pair = b.call(aten.sort.default, r.choice(recent))
            made.append(b.call(operator.getitem, pair, 0))
    for node in b.graph.nodes:
        if r.random() < 0.4:
            label = r.choice((None, "a", "b", "c"))
        if label is not None and node.op == "call_function":
            annotate(node, region(label))
    return b.module(*r.sample(made, min(3, len(made))), made[-1])


@pytest.mark.parametrize("seed", range(80))
def test_regions_change_nothing(seed: int, compiles: Compiles) -> None:
    gm = random_graph(seed)
    compiled: Any = compile_regions(gm).graph_module
    x, y = torch.linspace(-1, 1, 9).view(3, 3), torch.linspace(0, 2, 9).view(3, 3)
    expected = run(gm, x.clone(), y.clone())
    torch.testing.assert_close(run(compiled, x.clone(), y.clone()), expected, rtol=0, atol=0)
    torch.testing.assert_close(run(compiled, [x.clone(), y.clone()]), expected, rtol=0, atol=0)


def run(function: Callable[..., Any], *inputs: Any) -> Any:
    torch.manual_seed(0)
    return function(*inputs)
