"""Checkpointed calls are numbered from 0 in each joint graph, whatever was compiled before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.utils.checkpoint import checkpoint

from pytest_fxregion._torch.tracing import aot_autograd, default_partition
from pytest_fxregion.capture.tracing import joint_graph_passes
from pytest_fxregion.passes.checkpoints import number_checkpoints


def graph_with(*ids: object) -> fx.GraphModule:
    graph = fx.Graph()
    node = graph.placeholder("x")
    for number in ids:
        node = graph.call_function(torch.sin, (node,))
        if number is not None:
            node.meta["ac_graph_id"] = number
    graph.output(node)
    return fx.GraphModule({}, graph)


def ids_of(gm: fx.GraphModule) -> list[object]:
    called = (node for node in gm.graph.nodes if node.op == "call_function")
    return [node.meta.get("ac_graph_id") for node in called]


def test_ids_keep_their_order() -> None:
    """torch's partitioner compares them: a nested call comes after the one around it."""
    gm = graph_with(9, None, 4, 9, 31)
    number_checkpoints(gm)
    assert ids_of(gm) == [1, None, 0, 1, 2]


def test_what_is_no_number_stays() -> None:
    gm = graph_with("outer", 7)
    number_checkpoints(gm)
    assert ids_of(gm) == ["outer", 0]


def test_a_partitioner_sees_the_same_ids_in_every_compilation() -> None:
    def model(x: Tensor, w: Tensor) -> Any:
        def layer(t: Tensor) -> Tensor:
            return (t @ w).sin()

        first: Any = checkpoint(layer, x, use_reentrant=False)
        return checkpoint(layer, first, use_reentrant=False)

    seen: list[list[object]] = []

    def partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        seen.append(list(dict.fromkeys(number for number in ids_of(joint) if number is not None)))
        return default_partition(joint, inputs, **options)

    def runs(graph: fx.GraphModule, _inputs: Any) -> Any:
        return graph

    backend = aot_autograd(fw_compiler=runs, bw_compiler=runs, partition_fn=partition)
    for _ in range(2):
        torch._dynamo.reset()
        x, w = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
        with joint_graph_passes():
            torch.compile(model, backend=backend)(x, w).sum().backward()
        assert w.grad is not None
    assert seen == [[0, 1], [0, 1]]
