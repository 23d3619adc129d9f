"""The values that a compilation is turned into.  All frozen; nothing here compiles or checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion.kernels.source import Kernel, Program
from pytest_fxregion.options import STAGES
from pytest_fxregion.regional import Region
from pytest_fxregion.snapshots.document import Document, Section


@dataclass(frozen=True)
class SavedValue:
    """A value that the forward hands to the backward.

    ``type`` is its text in the graph (``f32[4, 8][8, 1]cuda:0``), ``size`` its size in bytes: a
    number, or an expression in the graph's symbols where shapes are dynamic.  ``nbytes`` is the
    number for the sizes of this call.  ``region`` is the name of the compiled region that computes
    it, if one does, and ``source`` the ``file:line`` that it comes from.
    """

    name: str
    type: str
    size: str
    nbytes: int
    is_input: bool = False
    region: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class GraphRecord:
    """One graph at one stage.

    ``stage`` is ``joint``, ``forward``, ``backward`` or ``inference``.  ``text`` is the readable
    text; ``graph`` a copy of the graph that later stages do not touch.  Joint graphs have no
    ``regions`` yet; in the others every region is one call in ``graph`` and has its own ``body``,
    whose text ``region_texts`` has by the region's name, and ``programs`` what Inductor generated.
    ``gradient_accumulations`` and ``recomputed`` are names of nodes of the graph before its regions
    were scooped out; the latter, of a forward or a backward, are those that the backward computes
    again, each with its bytes for the sizes of this call.  ``merged`` counts the nodes that were
    taken out of a joint or inference graph because an equal one is in it.  ``notes`` are sentences
    on tags that differ from torch's, ``losses`` on nodes that a region has, or may have, lost.
    """

    stage: str
    text: str
    graph: fx.GraphModule
    node_count: int
    regions: tuple[Region, ...] = ()
    region_texts: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, Program] = field(default_factory=dict)
    gradient_accumulations: tuple[str, ...] = ()
    recomputed: Mapping[str, int] = field(default_factory=dict)
    saved_for_backward: tuple[SavedValue, ...] = ()
    merged: int = 0
    notes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    provenance: str = ""

    @property
    def saved_bytes(self) -> int:
        """Bytes that this graph hands to the backward, for the sizes of this call."""
        return sum(value.nbytes for value in self.saved_for_backward)

    @property
    def recomputed_bytes(self) -> int:
        """Bytes of what the backward computes again, for the sizes of this call."""
        return sum(self.recomputed.values())

    @property
    def saved_by_region(self) -> dict[str | None, int]:
        """Bytes handed to the backward by the name of the region that computes them.

        Under None: what is computed outside of regions, and inputs.
        """
        found: Counter[str | None] = Counter()
        for value in self.saved_for_backward:
            found[value.region] += value.nbytes
        return dict(found)

    @property
    def recomputed_by_region(self) -> dict[str | None, int]:
        """Bytes computed again in the backward, by the name of this graph's region; else None."""
        home = {name: region.name for region in self.regions for name in region.nodes}
        found: Counter[str | None] = Counter()
        for name, nbytes in self.recomputed.items():
            found[home.get(name)] += nbytes
        return dict(found)

    def __str__(self) -> str:
        return self.text

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel of the graph's regions, once, in the order of the regions."""
        return tuple(
            {
                (kernel.name, kernel.source): kernel
                for program in self.programs.values()
                for kernel in program.kernels
            }.values()
        )

    def sections(self, stages: Sequence[str] = STAGES) -> Iterator[Section]:
        """Yield the sections of a snapshot: the graph, what it saves, and each region's body once.

        ``stages`` are the parts to keep: the stage's own name for its graph, ``saved`` and
        ``regions`` for what belongs to that, and ``kernels``.
        """
        if self.stage in stages:
            yield Section(self.stage, self.text)
            if "saved" in stages and self.saved_for_backward:
                saved = (f'{v.name}: "{v.type}"  {v.size} B' for v in self.saved_for_backward)
                yield Section(f"{self.stage}: saved for backward", "\n".join(saved))
            if "regions" in stages:
                names: dict[str, list[str]] = {}
                for name, text in self.region_texts.items():
                    names.setdefault(text, []).append(name)
                for text, sharing in names.items():
                    yield Section(f"{self.stage}: {', '.join(sharing)}", text)
        if "kernels" in stages:
            for kernel in self.kernels:
                yield Section(f"{self.stage}: kernel {kernel.name}", kernel.stable_source)

    def snapshot_document(self) -> Document:
        """Return what ``assert record == fxregion_snapshot`` compares."""
        return Document(self.provenance, tuple(self.sections()))


@dataclass(frozen=True)
class CompiledGraph:
    """All stages of one graph that dynamo handed over.

    ``traced`` is that graph, as dynamo made it.  Training has ``joint``, ``forward`` and
    ``backward`` (no backward where none was run); inference has ``inference`` only.
    ``backward_runs`` is how often the backward ran: dynamo's pieces of a function may run twice.
    """

    joint: GraphRecord | None = None
    forward: GraphRecord | None = None
    backward: GraphRecord | None = None
    inference: GraphRecord | None = None
    backward_runs: int = 1
    traced: fx.GraphModule | None = None

    def stages(self) -> Iterator[GraphRecord]:
        """Yield the records that are there, in pipeline order."""
        for record in (self.joint, self.forward, self.backward, self.inference):
            if record is not None:
                yield record


@dataclass(frozen=True)
class Compilation:
    """Everything that one call compiled: a :class:`CompiledGraph` for each piece between breaks."""

    graphs: tuple[CompiledGraph, ...] = ()

    @property
    def regions(self) -> tuple[Region, ...]:
        """All compiled regions, in the order of graphs and stages."""
        return tuple(
            region
            for graph in self.graphs
            for record in graph.stages()
            for region in record.regions
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of all graphs besides their text, each once."""
        records = [record for graph in self.graphs for record in graph.stages()]
        return tuple(dict.fromkeys(note for record in records for note in record.notes))

    @property
    def losses(self) -> tuple[str, ...]:
        """Which nodes of all graphs a region has lost, or may have, each once."""
        records = [record for graph in self.graphs for record in graph.stages()]
        return tuple(dict.fromkeys(loss for record in records for loss in record.losses))

    @property
    def devices(self) -> frozenset[str]:
        """Types of the devices that the tensors of all graphs are on: ``cuda``, ``cpu``."""
        return frozenset(
            value.device.type
            for graph in self.graphs
            for record in graph.stages()
            for node in record.graph.graph.nodes
            for value in tree_leaves(node.meta.get("val"))
            if isinstance(value, torch.Tensor)
        )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel of all regions, each once."""
        return tuple(
            {
                (kernel.name, kernel.source): kernel
                for graph in self.graphs
                for record in graph.stages()
                for kernel in record.kernels
            }.values()
        )

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators that compiled regions call beside their kernels, each once."""
        return tuple(
            dict.fromkeys(
                operator
                for graph in self.graphs
                for record in graph.stages()
                for program in record.programs.values()
                for operator in program.operators
            )
        )

    def document(self, stages: Sequence[str], provenance: str) -> Document:
        """Return the snapshot's document: the stages asked for, in pipeline order."""
        several = len(self.graphs) > 1
        return Document(
            provenance,
            tuple(
                Section(f"graph {number}: {section.title}", section.text) if several else section
                for number, graph in enumerate(self.graphs)
                for record in graph.stages()
                for section in record.sections(stages)
            ),
        )
