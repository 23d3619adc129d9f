"""Functions that take their own gradients, and graphs that torch.export's AOTAutograd makes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

from pytest_fxregion import joint_graph_passes, region, regional_inductor, trace_joint
from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion.passes.metadata import UNMATCHED
from tests.unit.passes.joint_tracing import leaf, tagged

REGION = {"compile_with_inductor": {"inductor_region": "f"}}


def annotated(graph: fx.GraphModule) -> dict[str, Any]:
    return {n.name: n.meta.get("custom") for n in graph.graph.nodes if n.op == "call_function"}


def step(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    with region("f"):
        h = (x @ w).relu() * 2
    h.retain_grad()
    (g,) = torch.autograd.grad(h.sum() + h.exp().sum(), [w])
    return h.detach(), g


def test_a_step_has_its_backward_annotated_and_its_sums_tagged() -> None:
    graph = trace_joint(step, torch.ones(3, 4), leaf(4, 4))
    found = annotated(graph)
    for name in ("mm", "relu", "mul", "mul_2", "threshold_backward", "mm_1"):
        assert found[name] == REGION, name
    for name in ("sum_1", "exp", "expand", "mul_1"):
        assert found[name] is None, name
    assert [node.name for node in tagged(graph)] == ["add_1"]
    assert not any(UNMATCHED in node.meta for node in graph.graph.nodes)


def test_its_regions_compile_forward_and_backward() -> None:
    inputs = torch.ones(3, 4), leaf(4, 4)
    compiled = regional_inductor(trace_joint(step, *inputs), *inputs)
    with torch.no_grad():
        results = tree_leaves(compiled(*inputs))
    for one, other in zip(results, step(*inputs), strict=True):
        torch.testing.assert_close(one, other)


def gradient_of_a_gradient(x: Tensor) -> Tensor:
    with region("f"):
        y = x.sin() * x
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), x)
    return second


def test_the_backward_of_a_backward_belongs_to_the_same_region() -> None:
    graph = trace_joint(gradient_of_a_gradient, leaf(3))
    assert len(tagged(graph)) == 4
    assert all(node.target is torch.ops.aten.add.Tensor for node in tagged(graph))
    found = annotated(graph)
    for name in ("sin", "cos", "mul_3", "sin_1", "neg", "mul_9", "mul_12"):
        assert found[name] == REGION, name
    assert not any(UNMATCHED in node.meta for node in graph.graph.nodes)
    torch.testing.assert_close(graph(leaf(3)), gradient_of_a_gradient(leaf(3)))


def test_what_torch_refuses_is_refused_as_by_torch() -> None:
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        trace_joint(lambda x: torch.autograd.grad(x.sin(), [x]), leaf(3))
    with pytest.raises(RuntimeError, match="does not require grad"):
        trace_joint(lambda x: torch.autograd.grad(x.sum(), [x]), torch.ones(3))


def test_a_tangent_that_is_given_counts_as_a_gradient() -> None:
    def function(x: Tensor, tangent: Tensor) -> Tensor:
        y = x.exp()
        (g,) = torch.autograd.grad([y, y.sin()], x, [tangent, tangent])
        return g

    graph = trace_joint(function, leaf(3), torch.ones(3))
    (addition,) = tagged(graph)
    assert graph.graph.find_nodes(op="placeholder")[1] in addition.all_input_nodes


def test_torch_is_left_as_it_was() -> None:
    before = torch.autograd.grad
    trace_joint(step, torch.ones(3, 4), leaf(4, 4))
    assert torch.autograd.grad is before


class Model(torch.nn.Module):
    """Its loss uses its weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(3))

    def forward(self, x: Tensor) -> Tensor:
        with region("f"):
            h = (x @ self.weight).sin()
        return (h @ self.weight).sum()


def test_an_exported_joint_graph_has_both() -> None:
    with ExitStack() as stack, joint_graph_passes():
        exported = aot_export_joint_with_descriptors(stack, Model(), (torch.ones(2, 3),))
    graph = exported.graph_module
    (addition,) = tagged(graph)
    assert tuple(addition.meta["val"].shape) == (3, 3)
    found = annotated(graph)
    assert found["sin"] == found["cos"] == REGION
    assert found["sum_1"] is None
