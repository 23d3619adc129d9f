"""Results that are new tensors, as the graph says.  In: a body and its code; out: which are not.

Inductor takes sums with zeros and products with ones away (``x + zeros_like(x)``) without asking
whether their value is a result: the code then returns the operand itself, or one tensor for two
results, and who writes to one of the two writes to both (seen in torch 2.13; a ``clone`` of such a
result is taken away too).  One tensor for a result with a gradient and one without has none.
"""

from __future__ import annotations

import re

import torch
from torch.fx import GraphModule, Node

from pytest_fxregion._torch.tensors import storage_key

from .layout import results_of

_TAKEN = re.compile(r"^ *([\w, ]+?),? = args$", re.MULTILINE)
_RETURNED = re.compile(r"^ *return \((.*)\)$", re.MULTILINE)
# Without this nothing is taken away.
FOLDING_OFF: dict[str, object] = {"joint_graph_constant_folding": False}

# A tensor as it is, or under another shape: `arg0_1`, `reinterpret_tensor(arg0_1, (6, 4), …`.
_TENSOR = re.compile(r"^(?:reinterpret_tensor\()?(\w+)$")


def shared_results(body: GraphModule, source: str) -> list[Node]:
    """Return the results that are new by the graph, and not by the generated ``source``.

    There they are an operand, or the tensor that an earlier result is.
    """
    taken, returned = _TAKEN.findall(source), _RETURNED.findall(source)
    if not taken or not returned:
        return []
    items = _items(returned[-1])
    results = results_of(body)
    if len(items) != len(results):
        return []
    storages = {
        key
        for node in body.graph.find_nodes(op="placeholder")
        for key in storage_key(node.meta.get("val"))
    }
    operands = {name.strip() for name in taken[-1].split(",")}
    held: dict[tuple[str, str], set[int]] = {}  # by name, and where in it a result begins
    found = []
    for node, item in zip(results, items, strict=True):
        match = _TENSOR.match(item.split(",")[0])
        if match is None or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        start = item.rstrip(")").rpartition(",")[2].strip() if item != match[1] else "0"
        own = set(storage_key(node.meta["val"]))
        others = storages if match[1] in operands else held.setdefault((match[1], start), own)
        if others.isdisjoint(own):
            found.append(node)
    return found


def _items(text: str) -> list[str]:
    """Split what a ``return (…)`` returns at its outer commas."""
    items, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    items.append(text[start:].strip())
    return [item for item in items if item]
