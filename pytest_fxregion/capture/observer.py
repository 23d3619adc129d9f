"""Collect the records of a compilation while it happens.

The backend tells a :class:`Capture` what it has at each stage, in order; when the call is over
:meth:`Capture.result` gives the frozen records.  A capture serves one call of the function under
test, with however many graphs dynamo makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.generated import generated_source
from pytest_fxregion._torch.operators import OpOverload
from pytest_fxregion._torch.symbols import size_hint
from pytest_fxregion._torch.tensors import untyped_size
from pytest_fxregion.capture.notes import body_losses, joint_losses, joint_notes, random_losses
from pytest_fxregion.capture.record import Compilation, CompiledGraph, GraphRecord, SavedValue
from pytest_fxregion.kernels.source import Program, read_program
from pytest_fxregion.passes.metadata import BACKWARD, SIDE
from pytest_fxregion.readable import render
from pytest_fxregion.readable.counters import Counters
from pytest_fxregion.readable.symbols import stable_symbols
from pytest_fxregion.readable.types import annotation_text
from pytest_fxregion.readable.values import stable_text
from pytest_fxregion.regional import RegionalGraph
from pytest_fxregion.regional.annotation import source_of
from pytest_fxregion.regional.effects import may_alias
from pytest_fxregion.regional.region import RegionCall


class GraphCapture:
    """The stages of one graph, as they come."""

    def __init__(self, root: Path | None, provenance: str) -> None:
        self._root = root
        self._provenance = provenance
        self._counters = Counters()
        self._traced: fx.GraphModule | None = None
        self._records: dict[str, GraphRecord] = {}
        self._backward_runs = 0
        self._saved: tuple[SavedValue, ...] = ()
        self._recomputed: dict[str, int] = {}

    def traced(self, graph: fx.GraphModule) -> None:
        """Record the graph that dynamo made."""
        self._traced = copy_graph(graph)

    def joint(self, graph: fx.GraphModule, merged: int = 0) -> None:
        """Record the joint graph as our passes left it, before it is partitioned.

        ``merged`` is how many nodes it has fewer because an equal one is in it.
        """
        copied = copy_graph(graph)
        self._records["joint"] = GraphRecord(
            stage="joint",
            text=self._text(copied),
            graph=copied,
            node_count=count_operations(graph),
            gradient_accumulations=gradient_accumulations(graph),
            merged=merged,
            notes=joint_notes(graph, self._root),
            losses=(
                *joint_losses(graph, self._root),
                *body_losses(self._traced, graph, self._root),
            ),
            provenance=self._provenance,
        )

    def partitioned(
        self, forward: fx.GraphModule, backward: fx.GraphModule, num_forward_outputs: int
    ) -> None:
        """Note what the backward is handed by the forward, and what it computes again."""
        (outputs,) = forward.graph.output_node().args
        assert isinstance(outputs, (tuple, list))
        rename = stable_symbols(forward, self._counters)
        self._saved = tuple(
            saved_value(node, rename, self._root)
            for node in outputs[num_forward_outputs:]
            if isinstance(node, fx.Node)
        )
        self._recomputed = recomputed(backward)

    def compiled(
        self, stage: str, before: fx.GraphModule, compiled: RegionalGraph, merged: int = 0
    ) -> None:
        """Record a graph whose regions were compiled; ``before`` still has their nodes."""
        copied = copy_graph(compiled.graph_module)
        self._records[stage] = GraphRecord(
            stage=stage,
            text=self._text(copied),
            graph=copied,
            node_count=count_operations(before),
            regions=compiled.regions,
            programs=generated_programs(compiled.graph_module),
            # Each counts for itself, so that equal bodies of different layers have one text.
            region_texts={r.name: render(r.body, root=self._root) for r in compiled.regions},
            gradient_accumulations=gradient_accumulations(before),
            recomputed={} if stage == "inference" else self._recomputed,
            saved_for_backward=self._saved_by(compiled) if stage == "forward" else (),
            merged=merged,
            losses=random_losses(before, self._root) if stage == "forward" else (),
            provenance=self._provenance,
        )

    def _saved_by(self, forward: RegionalGraph) -> tuple[SavedValue, ...]:
        """Return the saved values, each with the region that computes it."""
        home = {name: region.name for region in forward.regions for name in region.outputs}
        return tuple(replace(value, region=home.get(value.name)) for value in self._saved)

    def backward_ran(self) -> None:
        """Count one run of the compiled backward."""
        self._backward_runs += 1

    def result(self) -> CompiledGraph:
        """Return what has been recorded."""
        return CompiledGraph(
            **self._records, backward_runs=self._backward_runs, traced=self._traced
        )

    def _text(self, graph: fx.GraphModule) -> str:
        """Return a stage's text; what is numbered has the numbers of the stages before.

        The record's own graph has the text's numbers, too: torch's depend on what ran before.
        """
        text = render(graph, root=self._root, counters=self._counters)
        for node in graph.graph.nodes:
            if node.meta.get("ac_graph_id") is not None:
                shown = self._counters.number("ac_graph_id", stable_text(node.meta["ac_graph_id"]))
                node.meta["ac_graph_id"] = shown
        return text


class Capture:
    """The graphs of one call, in the order in which dynamo hands them over.

    ``root`` is what source paths in texts are relative to; ``provenance`` says on which torch and
    device this is, for the first line of snapshots.
    """

    def __init__(self, root: Path | None = None, provenance: str = "") -> None:
        self._root = root
        self._provenance = provenance
        self._graphs: list[GraphCapture] = []

    @contextmanager
    def graph(self) -> Iterator[GraphCapture]:
        """Start a graph; its stages are told to what is given.

        Forgets the graph if its compilation raises: dynamo may start it anew, as it does where a
        number turns out to be one that can be a tensor.
        """
        graph = GraphCapture(self._root, self._provenance)
        self._graphs.append(graph)
        try:
            yield graph
        except BaseException:
            self._graphs.remove(graph)
            raise

    def result(self) -> Compilation:
        """Return the records of all graphs."""
        return Compilation(tuple(graph.result() for graph in self._graphs))


def generated_programs(graph_module: fx.GraphModule) -> dict[str, Program]:
    """Return what Inductor generated for each region, by name, in bodies of operators too."""
    return {
        node.target.fxregion_region.name: read_program(generated_source(node.target.__wrapped__))
        for module in graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, RegionCall)
    }


def copy_graph(graph_module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy whose graph and metadata dictionaries are its own; parameters are shared.

    It takes its inputs one by one, whatever the calling convention of the original is.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    output = graph.graph_copy(graph_module.graph, copies)
    if output is not None:
        graph.output(output)
    return fx.GraphModule(graph_module, graph, class_name="GraphModule")


def count_operations(graph_module: fx.GraphModule) -> int:
    """Return how many nodes compute something: neither input, output nor attribute."""
    return sum(
        node.op not in ("placeholder", "output", "get_attr") for node in graph_module.graph.nodes
    )


def gradient_accumulations(graph_module: fx.GraphModule) -> tuple[str, ...]:
    """Return the names of the nodes tagged as gradient accumulations, in graph order."""
    return tuple(node.name for node in graph_module.graph.nodes if node.meta.get("is_gradient_acc"))


def recomputed(backward: fx.GraphModule) -> dict[str, int]:
    """Return the forward's operations that the backward computes again: their bytes, by name.

    A view has none of its own.
    """
    return {
        node.name: 0 if _is_view(node) else size_hint(_size_of(node))
        for node in backward.graph.nodes
        if node.op == "call_function" and node.meta.get(SIDE, BACKWARD) != BACKWARD
    }


def saved_value(
    node: fx.Node, rename: Callable[[str], str] = str, root: Path | None = None
) -> SavedValue:
    """Describe a value that the forward returns for the backward's sake; symbols are renamed."""
    size = _size_of(node)
    text = rename(annotation_text(node.meta) or "?")
    return SavedValue(
        name=node.name,
        type=text,
        size=rename(str(size)),
        nbytes=size_hint(size),
        is_input=node.op == "placeholder",
        source=_relative(source_of(node), root),
    )


def _size_of(node: fx.Node) -> int | torch.SymInt:
    """Return the bytes of a node's value; those of a container's items count with the items."""
    value: Any = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return untyped_size(value)
    return 0 if isinstance(value, (tuple, list)) or value is None else 8


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and any(may_alias(node))


def _relative(source: str | None, root: Path | None) -> str | None:
    if source is None or root is None:
        return source
    return source.removeprefix(f"{root}/")
