"""What each node of a graph computes, where its metadata says it and where it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion._torch.tensors import FakeTensor, new_fake_mode
from pytest_fxregion.regional.values import GraphValues


def values_of(gm: fx.GraphModule, *inputs: object, **kwargs: Any) -> tuple[GraphValues, list[Any]]:
    nodes = list(gm.graph.nodes)
    values = GraphValues(gm, nodes, inputs=inputs, **kwargs)
    return values, [values(node) for node in nodes if node.op != "output"]


def test_values_of_a_traced_graph_are_those_of_its_nodes() -> None:
    gm = make_fx(lambda x: x.sin().max(0), tracing_mode="fake")(torch.ones(3, 2))
    values, found = values_of(gm)
    nodes = [node for node in gm.graph.nodes if node.op != "output"]
    assert all(value is node.meta["val"] for node, value in zip(nodes, found, strict=True))
    assert values.fake_mode is found[0].fake_mode


def test_a_value_that_is_missing_is_made_in_the_mode_of_the_others() -> None:
    gm = make_fx(lambda x: x.sin().t(), tracing_mode="fake")(torch.ones(3, 2))
    x, sin, *_ = gm.graph.nodes
    del sin.meta["val"]
    values, (_, made, last) = values_of(gm)
    assert made.shape == (3, 2)
    assert made.fake_mode is values.fake_mode is x.meta["val"].fake_mode
    assert values(x) is x.meta["val"]
    assert last.shape == (2, 3)


class Untraced(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor, factor: int) -> Any:
        total = torch.sum(self.linear(x), 0, keepdim=True).squeeze(dim=0)
        return torch.mul(total, self.scale), factor + 1


@pytest.mark.parametrize("given", [False, True], ids=["own mode", "mode of the outer graph"])
def test_a_graph_without_values_computes_them_from_its_inputs(given: bool) -> None:
    gm = fx.symbolic_trace(Untraced())
    outer = new_fake_mode() if given else None
    values, found = values_of(gm, torch.ones(3, 4), 5, fake_mode=outer)
    assert outer in (None, values.fake_mode)
    shapes = [tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in found]
    assert shapes == [(3, 4), 5, (3, 2), (1, 2), (2,), (2,), (2,), 6]
    assert all(v.fake_mode is values.fake_mode for v in found if isinstance(v, FakeTensor))


def test_values_of_several_modes_are_brought_into_one() -> None:
    gm = make_fx(lambda x, y: (x.t().max(0), y))(torch.ones(3, 2), torch.ones(1).double())
    own = {node.meta["val"].fake_mode for node in gm.graph.find_nodes(op="placeholder")}
    assert len(own) == 2
    values, found = values_of(gm)
    for node, value in zip(gm.graph.nodes, found, strict=False):
        parts = value if isinstance(value, tuple) else (value,)
        before = node.meta["val"] if isinstance(value, tuple) else (node.meta["val"],)
        for old, new in zip(before, parts, strict=True):
            assert isinstance(new, FakeTensor)
            assert new.fake_mode is values.fake_mode
            assert (new.shape, new.stride(), new.dtype) == (old.shape, old.stride(), old.dtype)


def test_nothing_is_known_of_what_takes_something_unknown() -> None:
    gm = fx.symbolic_trace(lambda x: torch.sin(x).cos())
    assert values_of(gm)[1] == [None, None, None]
