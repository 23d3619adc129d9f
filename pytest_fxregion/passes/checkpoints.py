"""Number the checkpointed calls of a joint graph from 0.

torch counts them over the whole process (pytorch#167735), so that whoever reads the metadata, in a
partitioner or a test, would see what ran before.
"""

from __future__ import annotations

from torch import fx

_ID = "ac_graph_id"


def number_checkpoints(joint_graph: fx.GraphModule) -> None:
    """Give every ``ac_graph_id`` its rank among those of the graph.

    Their order stays: torch's partitioner asks of two calls which came first.
    """
    tagged = [node for node in joint_graph.graph.nodes if isinstance(node.meta.get(_ID), int)]
    ranks = {number: rank for rank, number in enumerate(sorted({n.meta[_ID] for n in tagged}))}
    for node in tagged:
        node.meta[_ID] = ranks[node.meta[_ID]]
