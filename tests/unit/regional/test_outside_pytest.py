"""The engine on graphs that other entry points of torch make; bodies run as they are."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch.fx.traceback import annotate as annotated
from torch.fx.traceback import preserve_node_meta

from pytest_fxregion import RegionError
from pytest_fxregion.regional import regional_inductor
from tests.unit.regional.annotated_graphs import Compiles


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with annotated({"compile_with_inductor": {"inductor_region": "r"}}):
            h: torch.Tensor = self.linear(x).sin() * 2
        return h.cos()


def compiler(gm: Any, example_inputs: Any) -> Any:
    return regional_inductor(gm, example_inputs)


def test_joint_graph_that_is_exported_with_descriptors(compiles: Compiles) -> None:
    from torch._functorch.aot_autograd import (
        aot_compile_joint_with_descriptors,
        aot_export_joint_with_descriptors,
    )

    model, x = Model(), torch.linspace(0, 1, 6).reshape(2, 3)
    with contextlib.ExitStack() as stack, preserve_node_meta():
        joint = aot_export_joint_with_descriptors(stack, model, (x,))
        compiled: Any = aot_compile_joint_with_descriptors(
            joint, fw_compiler=compiler, bw_compiler=compiler
        )
    parameters = [p.detach().clone().requires_grad_() for p in model.parameters()]
    compiled(*parameters, x).sum().backward()
    model(x).sum().backward()
    for ours, theirs in zip(parameters, model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert len(compiles.bodies) == 2  # a piece of the forward, one of the backward


def test_exported_program(compiles: Compiles) -> None:
    model, x = Model(), torch.linspace(0, 1, 6).reshape(2, 3)
    with preserve_node_meta():
        program = torch.export.export(model, (x,))
    compiled = regional_inductor(program.module())
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert len(compiles.bodies) == 1


def test_a_graph_that_was_only_written_down_needs_example_inputs(compiles: Compiles) -> None:
    def written(x: Any) -> Any:
        return torch.sin(x) * 2

    graph = torch.fx.symbolic_trace(written)
    for node in graph.graph.nodes:
        node.meta["custom"] = {"compile_with_inductor": True}
    with pytest.raises(RegionError, match=r"region at sin takes 'x'.*\(gm, \*inputs\)"):
        regional_inductor(graph)
    x = torch.linspace(0, 1, 3)
    torch.testing.assert_close(regional_inductor(graph, x)(x), written(x))
