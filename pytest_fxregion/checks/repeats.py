"""Whether eager gives the same twice.  In: the results of two eager runs; out: what differs.

Where it does not, runs with moved roundings show how far the function changes from call to call
instead of what rounding does, and everything would be allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

# Rounding in float64 is 2**29 times finer than in float32.  A difference that is finer by this
# much, too, comes of rounding; one that the function makes is the same in both.
FINER = 1e-3


def not_repeated(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much results differ that a second run from the same state gave anew.

    Those which differ by more than rounding does: sums in no fixed order, on a GPU, differ by less.
    Gradients are left out; some are zero but for rounding.
    """
    found = {}
    for name, one in first.items():
        if not name.startswith("gradient of "):
            by = _difference(one, second.get(name))
            if by is not None and by > _of_rounding(one):
                found[name] = by
    return found


def not_by_rounding(
    found: Mapping[str, float], first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, float]:
    """Return those of ``found`` that two runs in float64, ``first`` and ``second``, confirm.

    Sums in no fixed order may differ by as much as their result, if large terms cancel.
    """
    confirmed = {}
    for name, by in found.items():
        wide = _difference(first.get(name), second.get(name))
        if wide is None or wide > FINER * by:
            confirmed[name] = by
    return confirmed


def _difference(one: Any, other: Any) -> float | None:
    """Return the largest difference; None if they are of different forms or no numbers."""
    if type(one) is not type(other):
        return None
    if isinstance(one, int):
        try:
            return float(abs(one - other))
        except OverflowError:  # further apart than any floating-point number is large
            return math.inf
    if isinstance(one, float):
        one, other = (torch.tensor(x, dtype=torch.float64) for x in (one, other))
    if not isinstance(one, torch.Tensor):
        return None
    forms = [(value.shape, value.dtype, value.layout) for value in (one, other)]
    if forms[0] != forms[1] or one.layout is not torch.strided:
        return None
    if not one.numel():
        return 0.0
    wide = torch.complex128 if one.is_complex() else torch.float64
    first, second = (value.detach().to(wide).nan_to_num() for value in (one, other))
    return float((first - second).abs().max())


def _of_rounding(result: Any) -> float:
    """Return by how much rounding may let a result differ; of integers by nothing."""
    if isinstance(result, float):  # taken from a tensor; of which precision it does not say
        result = torch.tensor(result)
    if not isinstance(result, torch.Tensor) or not result.numel():
        return 0.0
    if not (result.is_floating_point() or result.is_complex()):
        return 0.0
    wide = torch.complex128 if result.is_complex() else torch.float64
    return more_than_rounding(result) * float(result.detach().to(wide).nan_to_num().abs().max())


def more_than_rounding(result: torch.Tensor) -> float:
    """Return an error, relative to the largest value of a result, that few roundings make."""
    return float(torch.finfo(result.dtype).eps ** 0.5)
