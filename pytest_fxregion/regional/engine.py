"""Compile a graph's annotated regions: the stages of this folder, one after the other.

annotation → effects → partition → scoop → fingerprint → compile → splice
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from pytest_fxregion._torch.dynamo import compile_lock
from pytest_fxregion._torch.graphs import without_node_metadata
from pytest_fxregion._torch.modes import ambient_compile_state
from pytest_fxregion._torch.result_cache import is_result_cached
from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion.errors import RegionError

from .annotation import Annotation, AnnotationReader, sources_of
from .compile import PieceCompiler
from .fingerprint import fingerprint
from .membership import members
from .planning import is_backward, kind_of, plan
from .region import Region, RegionCall
from .scoop import Piece, scoop
from .splice import splice
from .values import GraphValues, attribute_of


@dataclass(frozen=True)
class RegionalGraph:
    """A graph whose regions are compiled: callable as before, and with one list of its inputs."""

    graph_module: GraphModule
    regions: tuple[Region, ...]


def regional_inductor(gm: GraphModule, *example_inputs: object) -> GraphModule:
    """Compile the annotated regions of ``gm`` with Inductor; the rest runs as it is.

    Serves as forward, backward or inference compiler of AOTAutograd, and on ``make_fx`` and
    ``torch.export`` graphs::

        with torch.fx.traceback.annotate({"compile_with_inductor": {"inductor_region": "attn"}}):
            ...

    ``gm`` is left as it is.  Raises what :func:`compile_regions` raises.
    """
    compiled = compile_regions(gm, example_inputs).graph_module
    if is_result_cached():
        from .output import RegionalOutput

        # Stands for a graph module.
        return RegionalOutput(compiled, is_saved=False)  # type: ignore[return-value]
    return compiled


def compile_regions(gm: GraphModule, example_inputs: Sequence[object] = ()) -> RegionalGraph:
    """Compile the annotated regions of ``gm``, its operators' subgraphs included.

    ``example_inputs`` tell the shapes of placeholders that carry no value, as in a graph that was
    not traced with fake tensors.  ``gm`` is left as it is.

    Raises :class:`~pytest_fxregion.errors.AnnotationError` for an annotation that cannot be used,
    before anything is compiled, and :class:`~pytest_fxregion.errors.RegionError` for a region that
    does not compile.
    """
    # Inductor's options, its caches and what is patched around a compile belong to the process.
    # Dynamo does not hold its lock for a backward, nor for a graph that it did not trace.
    with compile_lock, without_node_metadata():
        return _Compilation().run(gm, _flat(example_inputs))


class _Compilation:
    """One call of :func:`compile_regions`: what its graph and subgraphs have in common."""

    def __init__(self) -> None:
        self._reader = AnnotationReader()
        self._annotations: dict[int, dict[Node, Annotation]] = {}
        self._regions: list[Region] = []
        self._done: dict[int, GraphModule] = {}
        self._first_with: dict[Hashable, str] = {}
        self._ambient: Hashable = None

    def run(self, gm: GraphModule, inputs: Sequence[object]) -> RegionalGraph:
        self._read(gm)
        return RegionalGraph(self._compile(gm, inputs), tuple(self._regions))

    def _read(self, gm: GraphModule) -> None:
        """Read all annotations, so that a wrong one is found before anything compiles."""
        if id(gm) in self._annotations:
            return
        self._annotations[id(gm)] = members(gm, self._reader)
        for target in _attributes(gm):
            subgraph = attribute_of(gm, target)
            if isinstance(subgraph, GraphModule):
                self._read(subgraph)

    def _compile(
        self,
        gm: GraphModule,
        inputs: Sequence[object] = (),
        *,
        inner: bool = False,
        mode: FakeTensorMode | None = None,
    ) -> GraphModule:
        with _collector_paused():
            nodes = list(gm.graph.nodes)
            values = GraphValues(gm, nodes, mode, inputs)
            annotations = self._annotations[id(gm)]
            planned = plan(nodes, annotations)
            pieces = scoop(gm, nodes, planned.pieces, values)
        if not inputs and not inner:
            _refuse_unknown(pieces)
        in_backward = is_backward(nodes)
        with PieceCompiler() as compiler:
            calls = [
                self._call(
                    compiler,
                    piece,
                    annotations[piece.nodes[-1]],
                    values.fake_mode,
                    inner=inner,
                    in_backward=in_backward,
                )
                for piece in pieces
            ]
        subgraphs = self._subgraphs(gm, annotations, values.fake_mode)
        if inner and not calls and not subgraphs:
            return gm
        with _collector_paused():
            return splice(
                gm,
                nodes,
                planned.schedule,
                pieces,
                calls,
                [call.fxregion_region.name for call in calls],
                replaced=subgraphs,
            )

    def _call(
        self,
        compiler: PieceCompiler,
        piece: Piece,
        annotation: Annotation,
        mode: FakeTensorMode,
        *,
        inner: bool,
        in_backward: bool,
    ) -> RegionCall:
        """Compile a piece, or take the artifact of an equal one."""
        if self._ambient is None:
            self._ambient = ambient_compile_state()
        key = fingerprint(piece.body, annotation.configs_key, self._ambient)
        region = _describe(
            piece,
            annotation,
            f"inductor_region_{len(self._regions)}",
            shared_with=self._first_with.get(key),
            in_backward=in_backward,
        )
        self._first_with.setdefault(key, region.name)
        self._regions.append(region)
        artifact = compiler.artifact(
            key, region.body, region.configs, mode, name=region.name, sources=region.sources
        )
        return RegionCall(region, artifact, traceable=inner)

    def _subgraphs(
        self, gm: GraphModule, annotations: dict[Node, Annotation], mode: FakeTensorMode
    ) -> dict[str, GraphModule]:
        """Subgraphs of operators outside of regions that hold regions themselves, compiled."""
        compiled: dict[str, GraphModule] = {}
        for node in gm.graph.find_nodes(op="get_attr"):
            target = str(node.target)
            subgraph = attribute_of(gm, target)
            if not isinstance(subgraph, GraphModule) or target in compiled:
                continue
            if all(user in annotations for user in node.users):
                continue
            if id(subgraph) not in self._done:
                self._done[id(subgraph)] = self._compile(subgraph, inner=True, mode=mode)
            if self._done[id(subgraph)] is not subgraph:
                compiled[target] = self._done[id(subgraph)]
        return compiled


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Hold garbage collection back while a graph is copied.

    Nothing is garbage yet, and each of the many collections that so many new objects set off would
    visit the whole graph again: half of the time at 50,000 nodes.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _refuse_unknown(pieces: Sequence[Piece]) -> None:
    """Refuse a piece that takes an input of which nothing is known, not its shape either."""
    for piece in pieces:
        for node in piece.operands:
            if node.op == "placeholder" and "val" not in node.meta:
                where = ", ".join(sources_of(piece.nodes)) or piece.nodes[0].name
                raise RegionError(
                    f"the region at {where} takes {node.name!r}, of which "
                    "the graph holds no value (meta['val']): hand example inputs over, as in "
                    "regional_inductor(gm, *inputs)"
                )


def _flat(example_inputs: Sequence[object]) -> Sequence[object]:
    """Return the inputs of either calling convention as one sequence."""
    if len(example_inputs) == 1 and isinstance(example_inputs[0], (list, tuple)):
        return example_inputs[0]
    return example_inputs


def _attributes(gm: GraphModule) -> list[str]:
    return list(dict.fromkeys(str(node.target) for node in gm.graph.find_nodes(op="get_attr")))


def _describe(
    piece: Piece, annotation: Annotation, name: str, *, shared_with: str | None, in_backward: bool
) -> Region:
    kinds = {kind_of(node, in_backward) for node in piece.nodes}
    return Region(
        name=name,
        label=annotation.label,
        configs=annotation.configs,
        nodes=tuple(node.name for node in piece.nodes),
        body=piece.body,
        inputs=tuple(node.name for node in piece.operands),
        outputs=tuple(node.name for node in piece.results),
        sources=sources_of(piece.nodes),
        kind=kinds.pop() if len(kinds) == 1 else _mixed(kinds),
        shared_with=shared_with,
    )


def _mixed(kinds: set[str]) -> str:
    for kind in ("backward", "recompute", "forward"):
        if kind in kinds:
            return kind
    return "inference"
