"""Run our passes where torch's tracing of a joint graph would run its own.

Two moments of AOTAutograd's tracing matter: just before the backward is traced (autograd's graph
is there, nothing has flowed along it yet) and just after (the joint graph is complete, nothing has
been removed from it).  While :func:`joint_graph_passes` is active, our recorder is started at the
first and our passes run at the second, in place of torch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from torch import fx

from pytest_fxregion._torch import AutogradNode, joint_capture, joint_wrappers
from pytest_fxregion.passes.gradient_accumulation import AccumulationRecorder, tag_accumulations
from pytest_fxregion.passes.metadata import copy_forward_metadata


@contextmanager
def joint_graph_passes() -> Iterator[None]:
    """While active, joint graphs that AOTAutograd traces are tagged and annotated by our passes.

    torch compiles under a process-wide lock, so that one replacement at a time is enough.
    """
    keep_stack_traces = joint_wrappers.setup_stacktrace_preservation_hooks  # type: ignore[attr-defined]
    recorder = AccumulationRecorder()

    def before_backward(roots: list[AutogradNode]) -> None:
        keep_stack_traces(roots)
        recorder.watch(roots)

    def after_tracing(joint_graph: fx.GraphModule) -> None:
        tag_accumulations(joint_graph, recorder)
        copy_forward_metadata(joint_graph)

    with (
        patch.object(joint_wrappers, "setup_stacktrace_preservation_hooks", before_backward),
        patch.object(joint_capture, "copy_fwd_metadata_to_bw_nodes", after_tracing),
    ):
        yield
