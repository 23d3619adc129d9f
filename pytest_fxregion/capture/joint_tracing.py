"""Trace a function that takes its own gradients: ``make_fx`` with our passes.

Comes in: a function that calls ``torch.autograd.grad``.  Goes out: its joint graph, backward nodes
annotated as their forward is and the engine's sums of gradients tagged, as AOTAutograd's would be.
``make_fx`` alone annotates no backward (torchtitan#2869).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from pytest_fxregion._torch.autograd import has_gradient_edge
from pytest_fxregion._torch.tracing import current_tracer
from pytest_fxregion.passes.checkpoints import number_checkpoints
from pytest_fxregion.passes.gradient_accumulation import AccumulationRecorder, tag_accumulations
from pytest_fxregion.passes.metadata import BACKWARD, SIDE, copy_forward_metadata


def trace_joint(
    function: Callable[..., Any],
    *args: Any,
    tracing_mode: Literal["real", "fake", "symbolic"] = "fake",
) -> fx.GraphModule:
    """Return the graph of ``function(*args)``, forward and backward, for ``regional_inductor``.

    ``tracing_mode`` is ``make_fx``'s.  What the function calls as ``torch.autograd.grad`` is its
    backward; gradients of gradients are, too, if the first are taken with ``create_graph=True``.
    """
    with (
        preserve_node_meta(),
        patch.object(torch.autograd, "grad", _annotated(torch.autograd.grad)),
    ):
        graph: fx.GraphModule = make_fx(function, tracing_mode=tracing_mode)(*args)
    tag_accumulations(graph)
    copy_forward_metadata(graph)
    number_checkpoints(graph)
    return graph


def _annotated(trace_backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``torch.autograd.grad`` that marks what it traces."""

    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **options: Any) -> Any:
        tracer = current_tracer()
        roots = _listed(outputs)
        if tracer is None or not all(map(_starts_a_backward, roots)):
            return trace_backward(outputs, inputs, grad_outputs, **options)
        given = [None] * len(roots) if grad_outputs is None else _listed(grad_outputs)
        # As torch itself makes them, so that they are known.
        tangents = [
            torch.ones_like(root) if tangent is None and root.numel() == 1 else tangent
            for root, tangent in zip(roots, given, strict=True)
        ]
        recorder = AccumulationRecorder()
        before = next(iter(reversed(tracer.graph.nodes)), None)
        recorder.watch(roots, tangents, numbered=False)
        gradients = trace_backward(roots, inputs, tangents, **options)
        for node in reversed(tracer.graph.nodes):
            if node is before:
                break
            node.meta[SIDE] = BACKWARD
        recorder.mark()
        return gradients

    return grad


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Sequence) else [values]


def _starts_a_backward(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and has_gradient_edge(value)
