"""Give backward nodes the annotations of the forward nodes that they belong to.

Comes in: a joint graph as traced.  Goes out: the same graph, its backward nodes carrying ``custom``
and the forward's module and source stacks.

A backward node belongs to the forward node whose autograd sequence number (``seq_nr``) it carries.
Several forward nodes may share a number: an operation that creates no autograd node takes over the
number of the one before it.  The first of them owns it.  Numbers go across the graphs of
higher-order operators: a backward in one body may belong to a forward in another.

Some numbers have no forward node: writing in place makes a node of autograd's that stands for no
single operation.  Then the line of code tells, where all that it computed is annotated alike.

The backward of a ``cond`` has bodies of its own, in which torch traces the branches anew, without
annotations and with one number for all.  They take that of a branch which is annotated alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import fx

from pytest_fxregion.regional.annotation import custom_of

# Written by the tracer on every node of a joint graph that it knows the side of.
SIDE = "partitioner_tag"
BACKWARD = "is_backward"

# The key of the number that a backward node has as an operation of its own: what it is to the
# backward of a backward, of gradients of gradients.
OWN_NUMBER = "fxregion_own_seq_nr"

# The key in the metadata of a backward node of which it is not known what it belongs to.
UNMATCHED = "fxregion_unmatched"


def copy_forward_metadata(joint_graph: fx.GraphModule) -> None:
    """Copy ``custom``, module stack and source stack from forward to backward nodes, by ``seq_nr``.

    ``custom`` is copied deeply and merged over what a scope in the backward itself had set; on a
    clash the forward's value stands.  Gradient accumulations take nothing, and neither does a
    node whose number no forward node has and whose line has no one annotation: it is marked
    :data:`UNMATCHED`.  Run it after the accumulations have been tagged.
    """
    owners: dict[int, fx.Node] = {}
    lines: dict[str, fx.Node | None] = {}
    for node in _all_nodes(joint_graph):
        if node.meta.get(SIDE) == BACKWARD:
            continue
        if "seq_nr" in node.meta:
            owners.setdefault(node.meta["seq_nr"], node)
        line = node.meta.get("stack_trace")
        if line and node.op == "call_function":
            one = lines.setdefault(line, node)
            if one is not None and one.meta.get("custom") != node.meta.get("custom"):
                lines[line] = None

    for node in _all_nodes(joint_graph):
        if node.meta.get(SIDE) != BACKWARD or node.meta.get("is_gradient_acc"):
            continue
        owner = owners.get(node.meta.get("seq_nr", -1))
        if owner is None:
            owner = lines.get(node.meta.get("stack_trace", ""))
        if owner is not None:
            _inherit(node, owner)
        elif node.op == "call_function" and "custom" not in node.meta:
            node.meta[UNMATCHED] = True
        if OWN_NUMBER in node.meta:
            owners.setdefault(node.meta[OWN_NUMBER], node)

    for module in joint_graph.modules():
        if isinstance(module, fx.GraphModule):
            _copy_to_branches(module)


def _copy_to_branches(module: fx.GraphModule) -> None:
    """Give the bodies of a ``cond`` in the backward what those of its forward have."""
    forward: dict[object, fx.Node] = {}
    cond = torch.ops.higher_order.cond
    for node in module.graph.find_nodes(op="call_function", target=cond):
        number = node.meta.get("seq_nr")
        if number is None:
            continue
        if node.meta.get(SIDE) != BACKWARD:
            forward.setdefault(number, node)
        elif number in forward:
            branches = _branches(module, node), _branches(module, forward[number])
            for branch, own in zip(*branches, strict=True):
                _copy_to_branch(branch, own)


def _branches(module: fx.GraphModule, cond: fx.Node) -> list[fx.GraphModule]:
    names = [branch.target for branch in cond.args[1:3] if isinstance(branch, fx.Node)]
    bodies = [module.get_submodule(str(name)) for name in names]
    return [body for body in bodies if isinstance(body, fx.GraphModule)]


def _copy_to_branch(backward: fx.GraphModule, forward: fx.GraphModule) -> None:
    annotations = [n.meta.get("custom") for n in forward.graph.nodes if n.op == "call_function"]
    if not any(annotations) or any(other != annotations[0] for other in annotations):
        return
    for node in backward.graph.nodes:
        is_sum = node.meta.get("is_gradient_acc")
        if node.op == "call_function" and "custom" not in node.meta and not is_sum:
            node.meta["custom"] = copy.deepcopy(annotations[0])


def _inherit(node: fx.Node, owner: fx.Node) -> None:
    for own_key, forward_key in (
        ("fwd_nn_module_stack", "nn_module_stack"),
        ("fwd_source_fn_stack", "source_fn_stack"),
    ):
        if forward_key in owner.meta:
            node.meta[own_key] = owner.meta[forward_key]
    custom = copy.deepcopy(owner.meta.get("custom"))
    if isinstance(custom, Mapping):
        custom = {**custom_of(node), **custom}
    if custom is not None:
        node.meta["custom"] = custom


def _all_nodes(joint_graph: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield the nodes of the graph and of every body inside it."""
    for module in joint_graph.modules():
        if isinstance(module, fx.GraphModule):
            yield from module.graph.nodes
