"""Whether eager gives the same twice.  In: the results of two eager runs; out: what differs.

Where it does not, runs with moved roundings show how far the function changes from call to call
instead of what rounding does, and everything would be allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def not_repeated(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much results differ that a second run from the same state gave anew.

    Those which differ by more than rounding does: sums in no fixed order, on a GPU, differ by less.
    Gradients are left out; some are zero but for rounding.
    """
    found = {}
    for name, one in first.items():
        other = second.get(name)
        if name.startswith("gradient of ") or not isinstance(other, torch.Tensor):
            continue
        if not isinstance(one, torch.Tensor) or one.shape != other.shape:
            continue
        if not one.is_floating_point() or other.dtype != one.dtype or not one.numel():
            continue
        wide = [value.detach().double().nan_to_num() for value in (one, other)]
        differs = float((wide[0] - wide[1]).abs().max())
        if differs > more_than_rounding(one) * float(wide[0].abs().max()):
            found[name] = differs
    return found


def more_than_rounding(result: torch.Tensor) -> float:
    """Return an error, relative to the largest value of a result, that few roundings make."""
    return float(torch.finfo(result.dtype).eps ** 0.5)
