"""Run our passes where torch's tracing of a joint graph would run its own.

Three moments of AOTAutograd's tracing matter: just before the backward is traced (autograd's graph
is there, nothing has flowed along it yet), just after (the joint graph is complete, nothing has
been removed from it), and when operations with Python floats are made ones with tensors.  While
:func:`joint_graph_passes` is active, our recorder is started at the first, our passes run at the
second in place of torch's, and at the third new nodes keep the metadata of those they replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from pytest_fxregion._torch.tracing import joint_capture, joint_compile
from pytest_fxregion.capture.streams import only_numbered_streams
from pytest_fxregion.passes.checkpoints import number_checkpoints
from pytest_fxregion.passes.gradient_accumulation import AccumulationRecorder, tag_accumulations
from pytest_fxregion.passes.metadata import copy_forward_metadata
from pytest_fxregion.passes.replacements import replacements_annotated


@contextmanager
def joint_graph_passes() -> Iterator[None]:
    """While active, joint graphs that AOTAutograd traces are tagged and annotated by our passes.

    What is replaced belongs to the process: no other thread may compile meanwhile.  The scope takes
    no lock itself: on a GPU a backward that is run inside of it compiles in a thread of autograd's.
    """
    trace_backward = torch.autograd.grad
    tensorify = joint_compile.tensorify_python_scalars  # type: ignore[attr-defined]

    def watched_backward(
        outputs: Sequence[torch.Tensor], inputs: Any, grad_outputs: Any = None, **options: Any
    ) -> Any:
        # Every hook that torch itself puts on the autograd graph is there by now.
        recorder = AccumulationRecorder()
        if isinstance(outputs, list) and isinstance(grad_outputs, list):
            recorder.watch(outputs, grad_outputs)
        gradients = trace_backward(outputs, inputs, grad_outputs, **options)
        recorder.mark()
        return gradients

    def after_tracing(joint_graph: fx.GraphModule) -> None:
        tag_accumulations(joint_graph)
        copy_forward_metadata(joint_graph)
        number_checkpoints(joint_graph)

    def annotated_tensorify(graph: fx.GraphModule, *args: Any) -> None:
        with replacements_annotated(graph.graph):
            tensorify(graph, *args)

    with (
        patch.object(torch.autograd, "grad", watched_backward),
        patch.object(joint_compile, "tensorify_python_scalars", annotated_tensorify),
        patch.object(joint_capture, "copy_fwd_metadata_to_bw_nodes", after_tracing),
        only_numbered_streams(),
    ):
        yield
