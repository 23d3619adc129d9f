"""A form of a regional graph that fx's ``GraphPickler`` can write.

The pickler writes a region's target as its artifact, which always gives a sequence of results.  So
the form to be written takes the single result of a region out of its sequence by a node of its own.
"""

from __future__ import annotations

import operator
from typing import Any

from torch.fx import Graph, GraphModule, Node

from .calling import codegen_for
from .region import RegionCall
from .stored import StoredCall


def serializable(gm: GraphModule) -> GraphModule:
    """Copy a graph from ``compile_regions`` into a form that ``GraphPickler.dumps`` takes.

    What ``GraphPickler.loads`` makes of it runs without compiling anything.
    """
    graph = Graph()
    new: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        copied = new[node] = graph.node_copy(node, new.__getitem__)
        target = node.target
        if isinstance(target, RegionCall):
            copied.target = _as_artifact(target)
            if target.is_single:
                new[node] = graph.call_function(operator.getitem, (copied, 0))
                new[node].meta = dict(node.meta)
                copied.meta["val"] = (node.meta.get("val"),)
    graph.set_codegen(codegen_for(gm.graph))
    return GraphModule(gm, graph)


def _as_artifact(call: RegionCall) -> Any:
    artifact = call.__wrapped__
    if isinstance(artifact, StoredCall):
        artifact = artifact.artifact()

    def region(*operands: object) -> object:
        return artifact(*operands)

    region.__name__ = region.__qualname__ = call.__name__
    region.__wrapped__ = artifact  # type: ignore[attr-defined]
    return region
