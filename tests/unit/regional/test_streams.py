"""Inductor is not told of streams that are only annotated."""

import pytest
import torch
from torch import fx

from pytest_fxregion.regional.streams import only_numbered_streams


@pytest.fixture
def body() -> fx.GraphModule:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)

    module = torch.nn.Module()
    module.branch = fx.symbolic_trace(inner)
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.cos, (x,)),))
    traced = fx.GraphModule(module, graph)
    traced.branch = module.branch
    for part in (traced, traced.branch):
        for node in part.graph.nodes:
            node.meta["custom"] = {"stream": 3, "pp_stage": 1}
    return traced


def annotations(body: fx.GraphModule) -> list[object]:
    return [
        node.meta["custom"]
        for part in body.modules()
        if isinstance(part, fx.GraphModule)
        for node in part.graph.nodes
        if "custom" in node.meta
    ]


def test_they_are_hidden_in_subgraphs_too_and_other_keys_stay(body: fx.GraphModule) -> None:
    before = annotations(body)
    with only_numbered_streams(body):
        assert annotations(body) == [{"pp_stage": 1}] * len(before)
    assert annotations(body) == before
    assert before[0] == {"stream": 3, "pp_stage": 1}


def test_they_are_back_after_a_failure(body: fx.GraphModule) -> None:
    before = annotations(body)
    with pytest.raises(ZeroDivisionError), only_numbered_streams(body):
        raise ZeroDivisionError
    assert annotations(body) == before
