"""Symbols that torch names by a count of the process, in the text."""

from typing import Any

import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from pytest_fxregion.readable import render


def graph_with_sizes(*sources: str) -> fx.GraphModule:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    graph = fx.Graph()
    for number, source in enumerate(sources):
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext([DimDynamic.DYNAMIC])
        node = graph.placeholder(f"x{number}")
        node.meta["val"] = mode.from_tensor(
            torch.zeros(5 + number), source=ConstantSource(source), symbolic_context=context
        )
    graph.output(())
    return fx.GraphModule({}, graph)


def test_symbols_of_tensors_that_torch_made_up_are_numbered() -> None:
    text = render(graph_with_sizes("__meta_utils_unknown_tensor7", "__meta_utils_unknown_tensor9"))
    assert '"f32[r0][1]cpu"' in text
    assert '"f32[r1][1]cpu"' in text
    other = render(
        graph_with_sizes("__meta_utils_unknown_tensor70", "__meta_utils_unknown_tensor4")
    )
    assert other == text


def test_symbols_of_inputs_keep_their_names() -> None:
    text = render(graph_with_sizes("L['x']"))
    assert "[r0]" not in text
    assert '"f32[s' in text
