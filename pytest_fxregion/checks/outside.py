"""Which results no region has a part in.  In: a compiled call; out: names of results.

What a graph's outputs are to the function's results is dynamo's affair, so it is tried: the regions
are made to give other numbers, and what is the same all the same does not come from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from pytest_fxregion.checks.culprit.pieces import CompiledPiece, results_moved
from pytest_fxregion.checks.traced_accumulations import Tracked

Run = Callable[[], Mapping[str, Any]]


def results_outside(
    pieces: Sequence[CompiledPiece],
    *,
    regional: Run,
    results: Mapping[str, Any],
    tracked: Tracked,
) -> frozenset[str]:
    """Return the names of the ``results`` whose bits have to be eager's.

    ``regional`` runs the compiled call once more; ``tracked`` are the sums of gradients.  Gradients
    are left out where three or more are summed, or a returned view's, whose order is not eager's,
    and all results if the call does not stand other numbers.
    """
    try:
        with results_moved(pieces):
            moved = regional()
    except Exception:  # an index or a condition made of a region's numbers, say
        return frozenset()
    sums = (*tracked.eager, *tracked.between_graphs)
    any_order = bool(tracked.movable) or any(len(each.uses) > 2 for each in sums)
    return frozenset(
        name
        for name, value in results.items()
        if not (any_order and name.startswith("gradient of ")) and _same(value, moved.get(name))
    )


def unrepeatable(names: Collection[str], eager: Run) -> frozenset[str]:
    """Return what eager does not give twice: additions in no fixed order, on a GPU."""
    first, second = eager(), eager()
    return frozenset(name for name in names if not _same(first.get(name), second.get(name)))


def _same(one: object, other: object) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    one, other = one.detach(), other.detach()  # `nan_to_num` has no gradient of complex numbers
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if one.layout is not torch.strided:  # which torch.equal does not take
        one, other = one.to_dense(), other.to_dense()
    return torch.equal(one.nan_to_num(), other.nan_to_num())
