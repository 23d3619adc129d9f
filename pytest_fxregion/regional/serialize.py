"""A form of a regional graph that fx's ``GraphPickler`` can write, and the way back.

The pickler writes a region's target as its artifact, which always gives a sequence of results.  So
the form to be written takes the single result of a region out of its sequence by a node of its own.
It runs as it is; :func:`callable_again` makes of it a graph that calls its regions directly.
"""

from __future__ import annotations

import operator
from typing import Any

from torch.fx import Graph, GraphModule, Node
from torch.nn import Module

from pytest_fxregion._torch.artifacts import AOTCompiledArtifact
from pytest_fxregion._torch.generated import generated_call
from pytest_fxregion._torch.graphs import codegen_of

from .artifacts import Artifact
from .calling import RegionalModule, codegen_for, hand_over_operands
from .region import ArtifactCall
from .stored import StoredCall


def serializable(gm: GraphModule) -> GraphModule:
    """Copy a graph from ``compile_regions`` into a form that ``GraphPickler.dumps`` takes.

    What ``GraphPickler.loads`` makes of it runs without compiling anything.  Bodies of operators
    are copied where they hold regions.
    """
    graph = Graph()
    new: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        copied = new[node] = graph.node_copy(node, new.__getitem__)
        target = node.target
        if isinstance(target, ArtifactCall):
            copied.target = _as_artifact(target)
            if target.is_single:
                new[node] = graph.call_function(operator.getitem, (copied, 0))
                new[node].meta = dict(node.meta)
                copied.meta["val"] = (node.meta.get("val"),)
    graph.set_codegen(codegen_for(gm.graph))
    written = GraphModule(gm, graph)
    lean = [new.name for new in _regions(gm) if new.target.is_lean]  # type: ignore[union-attr]
    written.fxregion_lean = lean  # type: ignore[assignment]  # not a module; goes into the pickle
    for name, body in written.named_children():
        if isinstance(body, GraphModule) and any(map(_regions, _graph_modules(body))):
            setattr(written, name, serializable(body))
    return written


def callable_again(loaded: GraphModule) -> GraphModule:
    """Copy what ``GraphPickler.loads`` made into a graph that hands its regions lists."""
    graph = Graph()
    new: dict[Node, Node] = {}
    count = 0
    for node in loaded.graph.nodes:
        container = node.args[0] if node.target is operator.getitem else None
        call = new[container].target if isinstance(container, Node) else None
        if isinstance(call, ArtifactCall) and call.is_single:
            new[node] = new[container]  # type: ignore[index]  # a Node
            continue
        copied = new[node] = graph.node_copy(node, new.__getitem__)
        artifact = getattr(node.target, "__wrapped__", None)
        if isinstance(artifact, AOTCompiledArtifact):
            is_lean = node.name in loaded.fxregion_lean  # type: ignore[operator]
            direct = generated_call(artifact) if is_lean else None
            copied.target = ArtifactCall(
                f"inductor_region_{count}",
                Artifact(artifact, *(direct or (None, False))),
                is_single=bool(node.users) and all(user.args[1] == 0 for user in node.users),
            )
            count += 1
    graph.set_codegen(codegen_of(loaded.graph))
    hand_over_operands(graph)
    again = RegionalModule(loaded, graph)
    for name, body in again.named_children():
        if any(hasattr(module, "fxregion_lean") for module in _graph_modules(body)):
            assert isinstance(body, GraphModule)
            setattr(again, name, callable_again(body))
    return again


def _graph_modules(module: Module) -> list[GraphModule]:
    return [inner for inner in module.modules() if isinstance(inner, GraphModule)]


def _regions(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if isinstance(node.target, ArtifactCall)]


def _as_artifact(call: ArtifactCall) -> Any:
    artifact = call.__wrapped__
    if isinstance(artifact, StoredCall):
        artifact = artifact.artifact()

    def region(*operands: object) -> object:
        return artifact(*operands)

    region.__name__ = region.__qualname__ = call.__name__
    region.__wrapped__ = artifact  # type: ignore[attr-defined]
    return region
