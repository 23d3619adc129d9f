"""The joint graph of a function as our passes leave it.  Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from pytest_fxregion._torch.dynamo import reset_compiler
from pytest_fxregion._torch.tracing import aot_autograd, default_partition
from pytest_fxregion.capture.observer import copy_graph
from pytest_fxregion.capture.tracing import joint_graph_passes
from pytest_fxregion.checks.as_traced import only_torchs_own_trace


def joint_graph(
    function: Callable[..., Any], *args: Any, dynamic: bool | None = None
) -> fx.GraphModule:
    """Trace ``function`` with the arguments and return its joint graph."""
    found = []

    def partition(joint: fx.GraphModule, inputs: Any, **rest: Any) -> tuple[Any, Any]:
        found.append(copy_graph(joint))
        return default_partition(joint, inputs, **rest)

    def as_it_is(graph: fx.GraphModule, _inputs: Sequence[Any]) -> Any:
        return graph.forward

    def backend(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with joint_graph_passes():
            build = aot_autograd(fw_compiler=as_it_is, bw_compiler=as_it_is, partition_fn=partition)
            return build(graph, inputs)

    reset_compiler()
    with only_torchs_own_trace():
        torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    reset_compiler()
    return found[-1]  # before it come the bodies of nested regions


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor of ones that collects a gradient."""
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def tagged(joint: fx.GraphModule) -> list[fx.Node]:
    """Return the tagged nodes of the graph and of every body in it."""
    return [
        node
        for module in joint.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
        if node.meta.get("is_gradient_acc")
    ]
