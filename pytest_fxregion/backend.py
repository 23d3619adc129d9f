"""The ``torch.compile`` backend: AOTAutograd with our joint-graph passes and our region compiler.

``torch.compile(fn, backend="fxregion")`` finds :func:`fxregion` through its entry point.  Tests use
:class:`RegionalBackend` with a :class:`~pytest_fxregion.capture.observer.Capture`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import fx

from pytest_fxregion._torch.dynamo import compile_lock
from pytest_fxregion._torch.result_cache import (
    is_result_bundled,
    is_result_cached,
    results_not_cached,
)
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.capture.observer import Capture, GraphCapture
from pytest_fxregion.capture.partitioning import partition
from pytest_fxregion.capture.tracing import joint_graph_passes
from pytest_fxregion.passes.common_subexpressions import merge_common_subexpressions
from pytest_fxregion.regional import compile_regions
from pytest_fxregion.regional.output import RegionalOutput, annotations_in_key

Compiler = Callable[[fx.GraphModule, Sequence[Any]], Any]


class RegionalBackend:
    """Compiles the annotated regions of each graph that dynamo hands over; the rest runs eagerly.

    The graph is traced to a joint graph, split by torch's default partitioner (which saves what
    eager would save, but for activation checkpointing) and its regions are compiled.  Where
    AOTAutograd's results are cached, annotations are part of the key; where there is a capture they
    are not, so that it always sees the compilers run.
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture

    def __call__(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one graph of dynamo's; the signature is that of a ``torch.compile`` backend."""
        cached = self._capture is None and is_result_cached() and is_result_bundled()
        if cached:
            annotations_in_key(graph)
        caching = nullcontext() if cached else results_not_cached()
        # Dynamo holds the lock by itself.  A region of another thread's backward, whose compile
        # replaces some of what is replaced here, waits.
        with compile_lock, joint_graph_passes(), caching, self._recorded() as record:
            if record is not None:
                record.traced(graph)
            build = aot_autograd(
                fw_compiler=_compiler("forward", record, cached),
                bw_compiler=_compiler("backward", record, cached),
                inference_compiler=_compiler("inference", record, cached),
                partition_fn=_partitioner(record),
            )
            return build(graph, example_inputs)

    def _recorded(self) -> AbstractContextManager[GraphCapture | None]:
        return nullcontext() if self._capture is None else self._capture.graph()


def fxregion(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile for ``torch.compile(..., backend="fxregion")``."""
    return RegionalBackend()(graph, example_inputs)


class _Counted:
    """A compiled backward that tells when it runs."""

    def __init__(self, compiled: fx.GraphModule, record: GraphCapture) -> None:
        self._boxed_call = True  # of the instance: a wrapper around it copies no others
        self._compiled = compiled
        self._record = record

    def __call__(self, *args: Any) -> Any:
        self._record.backward_ran()
        return self._compiled(*args)


def _compiler(stage: str, record: GraphCapture | None, cached: bool) -> Compiler:
    def compile_stage(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        # Of forward and backward equal nodes have been merged in the joint graph.
        merged = merge_common_subexpressions(graph) if stage == "inference" else 0
        compiled = compile_regions(graph, example_inputs)
        if record is None:
            module = compiled.graph_module
            return RegionalOutput(module, is_saved=True) if cached else module
        record.compiled(stage, graph, compiled, merged)
        if stage == "backward":
            return _Counted(compiled.graph_module, record)
        return compiled.graph_module

    return compile_stage


def _partitioner(record: GraphCapture | None) -> Callable[..., tuple[Any, Any]]:
    def merge_and_partition(
        joint_graph: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **rest: Any
    ) -> tuple[Any, Any]:
        merged = merge_common_subexpressions(joint_graph)
        if record is not None:
            record.joint(joint_graph, merged)
        forward, backward = partition(
            joint_graph, joint_inputs, num_fwd_outputs=num_fwd_outputs, **rest
        )
        if record is not None:
            record.partitioned(forward, backward, num_fwd_outputs)
        return forward, backward

    return merge_and_partition
