"""Results that are new tensors, as the graph says.  In: a body and its code; out: which are not.

Inductor takes sums with zeros and products with ones away (``x + zeros_like(x)``) without asking
whether their value is a result: the code then returns the operand itself, and who writes to one of
the two writes to both (seen in torch 2.13; a ``clone`` of such a result is taken away too).
"""

from __future__ import annotations

import re

import torch
from torch.fx import GraphModule, Node

from pytest_fxregion._torch import storage_key

from .layout import results_of

_TAKEN = re.compile(r"^ *([\w, ]+?),? = args$", re.MULTILINE)
_RETURNED = re.compile(r"^ *return \((.*)\)$", re.MULTILINE)
# Without this nothing is taken away.
FOLDING_OFF: dict[str, object] = {"joint_graph_constant_folding": False}

# An operand as it is, or under another shape: `arg0_1`, `reinterpret_tensor(arg0_1, (6, 4), …`.
_OPERAND = re.compile(r"^(?:reinterpret_tensor\()?(\w+)$")


def returned_operands(body: GraphModule, source: str) -> list[Node]:
    """Return the results that are new by the graph, and an operand by the generated ``source``."""
    taken, returned = _TAKEN.findall(source), _RETURNED.findall(source)
    if not taken or not returned:
        return []
    operands = {name.strip() for name in taken[-1].split(",")}
    items = _items(returned[-1])
    results = results_of(body)
    if len(items) != len(results):
        return []
    storages = {
        key
        for node in body.graph.find_nodes(op="placeholder")
        for key in storage_key(node.meta.get("val"))
    }
    return [
        node
        for node, item in zip(results, items, strict=True)
        if (match := _OPERAND.match(item.split(",")[0])) is not None
        and match[1] in operands
        and isinstance(node.meta.get("val"), torch.Tensor)
        and storages.isdisjoint(storage_key(node.meta["val"]))
    ]


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
