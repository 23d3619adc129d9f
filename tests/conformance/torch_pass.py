"""torch's regional pass in place of ours.  In: a graph as our backend sees it; out: its regions.

The pass is given a copy of the very graph that ours compiles, so that what differs is the pass and
not what was traced.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch._inductor
from torch._inductor.standalone_compile import AOTCompiledArtifact
from torch.fx import GraphModule, Node
from torch.fx.graph import _BoxedCodeGen
from torch.fx.passes.regional_inductor import regional_inductor

from pytest_fxregion import backend
from pytest_fxregion._torch.modes import without_dispatch_modes
from pytest_fxregion.regional import Region, RegionalGraph
from pytest_fxregion.regional.annotation import AnnotationReader

_NAME = "name in the graph that was compiled"


@dataclass(frozen=True)
class TorchRegion(Region):
    """A piece that torch's pass made; ``graph`` is what it was cut from."""

    graph: GraphModule | None = field(repr=False, compare=False, default=None)


class _AsItIs(AOTCompiledArtifact):
    """A piece that is not compiled, in the form that torch's pass asks for."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module

    def __call__(self, *operands: Any) -> Any:
        return self._module(*operands)


@contextmanager
def torchs_pass(*, inductor: bool) -> Iterator[None]:
    """While active, our backend has its regions compiled by torch's pass.

    Without ``inductor`` pieces run as they are: enough to see which pieces there are and whether
    they are put together as the program says, at no cost to speak of.
    """

    def compile_regions(graph: GraphModule, example_inputs: Sequence[object]) -> RegionalGraph:
        return _compile(graph, example_inputs, inductor=inductor)

    with patch.object(backend, "compile_regions", compile_regions):
        yield


def _compile(
    graph: GraphModule, example_inputs: Sequence[object], *, inductor: bool
) -> RegionalGraph:
    with without_dispatch_modes():  # constants are copied, not traced
        copied = copy.deepcopy(graph)
    for module in copied.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                node.meta[_NAME] = node.name
    pieces: list[GraphModule] = []
    compile_piece: Callable[..., Any] = torch._inductor.standalone_compile

    def recorded(module: GraphModule, *args: Any, **options: Any) -> Any:
        pieces.append(copy.copy(module))
        if inductor:
            return compile_piece(module, *args, **options)
        return _AsItIs(module)

    with patch.object(torch._inductor, "standalone_compile", recorded):
        compiled = regional_inductor(copied, *example_inputs)
    if not isinstance(compiled.graph._codegen, _BoxedCodeGen):
        # torch leaves a graph without regions as it is; our backend calls every one with a list.
        compiled.graph.set_codegen(_BoxedCodeGen())
        compiled.recompile()
    return RegionalGraph(
        compiled, tuple(_region(number, piece, graph) for number, piece in enumerate(pieces))
    )


def _region(number: int, piece: GraphModule, graph: GraphModule) -> TorchRegion:
    nodes = [node for node in piece.graph.nodes if node.op not in ("placeholder", "output")]
    reader = AnnotationReader()
    annotations = [found for node in nodes if (found := reader.read(node)) is not None]
    return TorchRegion(
        name=f"torch_region_{number}",
        label=annotations[0].label if annotations else "default",
        configs=annotations[0].configs if annotations else {},
        nodes=tuple(_name(node) for node in nodes if node.op != "get_attr"),
        body=piece,
        inputs=(),
        outputs=(),
        sources=(),
        kind="torch",
        graph=graph,
    )


def _name(node: Node) -> str:
    return str(node.meta.get(_NAME, node.name))
