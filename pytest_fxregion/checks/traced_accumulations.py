"""A second opinion on sums of gradients: what autograd adds up in the graph that dynamo traced.

Comes in: dynamo's graphs.  Goes out: the accumulations of each, as eager's engine makes them.

Dynamo may trace other operations than eager runs: ``q, k = x`` is one ``unbind`` in eager and a
``select`` for each item in the graph, whose gradients are two that have to be added up.  Both are
right.  The graph is run on fake tensors, so that nothing is computed and nothing written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.autograd import has_gradient_edge
from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion._torch.tensors import FakeTensor
from pytest_fxregion.checks.as_traced import only_torchs_own_trace
from pytest_fxregion.checks.gradient_accumulation import (
    Accumulation,
    EagerAccumulations,
    Form,
    Movable,
    disagreements,
    is_tagged_otherwise,
    misplaced,
)


@dataclass(frozen=True)
class Tracked:
    """What the engine added up in eager, and between the graphs of the compiled call."""

    eager: tuple[Accumulation, ...]
    between_graphs: tuple[Accumulation, ...]
    movable: tuple[Movable, ...] = ()
    empty: tuple[Form, ...] = ()


def wrong_sums(
    tracked: Tracked, traced: Sequence[fx.GraphModule], joint_graphs: Sequence[fx.GraphModule]
) -> list[str]:
    """Return, in words, what is tagged and was not added up by autograd, or the other way round.

    A graph stands once for each run of its backward.  Eager's count holds, unless dynamo's graphs
    (``traced``) make exactly the sums that are tagged.  Where torch tagged other nodes than we did,
    both counts must be right: eager's alone does not know of a sum that only the traced graph
    makes.
    """
    between = tracked.between_graphs
    empty = tracked.empty
    found = disagreements(tracked.eager, between, joint_graphs, tracked.movable, empty)
    if found or any(map(is_tagged_otherwise, joint_graphs)):
        walked = {id(graph): accumulations_of(graph) for graph in traced}
        known = [each for graph in traced if (each := walked[id(graph)]) is not None]
        if len(known) == len(traced):
            sums = [accumulation for each in known for accumulation in each.found()]
            movable = [addition for each in known for addition in each.movable()]
            # What is between graphs is no part of one, but for the gradients of views that a graph
            # returns and AOTAutograd takes anew outside of its own.
            second = disagreements(sums, (), joint_graphs, movable, empty, outside=between)
            found = second and (found or second)
    return found + misplaced(dict.fromkeys(joint_graphs))


def accumulations_of(traced: fx.GraphModule) -> EagerAccumulations | None:
    """Return what autograd adds up in a graph of dynamo's; None where it does not run like this."""
    values = [n.meta.get("example_value") for n in traced.graph.find_nodes(op="placeholder")]
    modes = {value.fake_mode for value in values if isinstance(value, FakeTensor)}
    if len(modes) != 1:
        return None
    watched = EagerAccumulations()
    try:
        with only_torchs_own_trace(), modes.pop(), torch.enable_grad():
            outputs = traced(*map(_leaf, values))
            found = [o for o in tree_leaves(outputs) if isinstance(o, torch.Tensor)]
            wanting = [o for o in found if has_gradient_edge(o)]
            watched.watch_call({}, found)
            torch.autograd.backward(wanting, [torch.ones_like(o) for o in wanting])
    except Exception:  # whatever operators may raise on tensors without data
        return None
    return watched


def _leaf(value: Any) -> Any:
    """Return a copy that collects a gradient if the value does, and that may be written to."""
    if not isinstance(value, torch.Tensor):
        return value
    copied = value.detach().clone()
    return copied.requires_grad_().clone() if value.requires_grad else copied
