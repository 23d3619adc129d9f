"""Compiling a piece of a graph while the graph itself is being compiled."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

# Inductor's `standalone_compile` is looked up at call time.
import torch._inductor
from torch import fx

# Finds the tracing context of the compile in progress, and sets one where there is none.
from torch._guards import TracingContext, tracing

from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion._torch.tracing import joint_compile


def standalone_compile(module: fx.GraphModule, inputs: list[Any]) -> Any:
    """Compile a graph with Inductor, shapes as in the present tracing context.

    Looked up at call time, so that a test may put its own in ``torch._inductor``.
    """
    return torch._inductor.standalone_compile(
        module, inputs, dynamic_shapes="from_tracing_context", aot=True
    )


def tracing_with(mode: FakeTensorMode) -> AbstractContextManager[object]:
    """The tracing context of ``mode``: the present one if it is that mode's, else a new one.

    In the present one nothing is said of the strides of a forward's outputs: AOTAutograd would take
    them for those of the graph that it compiles (``TracingContext.output_strides``, 2.11 to 2.15).
    """
    context = TracingContext.try_get()
    if context is not None and context.fake_mode is mode:
        return TracingContext.patch(output_strides=None)
    return tracing(TracingContext(mode))


def without_second_remat() -> AbstractContextManager[None]:
    """A scope in which a nested compile does not rematerialise what the outer one has laid out."""
    from torch._functorch import config

    name = "remat_using_tags_for_fwd_loss_bwd_graph"  # since 2.12
    return config.patch({name: False}) if hasattr(config, name) else nullcontext()


def without_second_tensorify() -> AbstractContextManager[object]:
    """A scope in which a nested compile leaves floats that are made of sizes what they are.

    The pass asks for each symbol as an input of its own, as dynamo's graphs have it and pieces do
    not.  ``tensorify_python_scalars``: 2.11 to 2.15.
    """
    return patch.object(joint_compile, "tensorify_python_scalars", lambda *_: None)
