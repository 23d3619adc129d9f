"""Which results no region has a part in.  In: a compiled call; out: names of results.

What a graph's outputs are to the function's results is dynamo's affair, so it is tried: the regions
are made to give other numbers, and what is the same all the same does not come from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from pytest_fxregion.checks.culprit.pieces import CompiledPiece, results_moved
from pytest_fxregion.checks.gradient_accumulation import Accumulation

Run = Callable[[], Mapping[str, Any]]


def results_outside(
    pieces: Sequence[CompiledPiece],
    *,
    regional: Run,
    eager: Run,
    results: Mapping[str, Any],
    sums: Sequence[Accumulation],
) -> frozenset[str]:
    """Return the names of the ``results`` whose bits have to be eager's.

    ``regional`` and ``eager`` run the call once more; ``sums`` are those of gradients that eager
    made.  Results that differ between two runs of eager (additions in no fixed order, on a GPU) are
    left out.  So are gradients where three or more are summed, whose order is not eager's, and all
    results if the call does not stand other numbers.
    """
    try:
        with results_moved(pieces):
            moved = regional()
        first, second = eager(), eager()
    except Exception:  # an index or a condition made of a region's numbers, say
        return frozenset()
    any_order = any(len(sum_.uses) > 2 for sum_ in sums)
    return frozenset(
        name
        for name, value in results.items()
        if not (any_order and name.startswith("gradient of "))
        and _same(value, moved.get(name))
        and _same(first.get(name), second.get(name))
    )


def outputs_alone(results: Iterable[str]) -> frozenset[str]:
    """Return the names of the ``results`` that are no gradients."""
    return frozenset(name for name in results if not name.startswith("gradient of "))


def _same(one: object, other: object) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return torch.equal(one.nan_to_num(), other.nan_to_num())
