"""Whether eager gives the same twice.  In: the results of two eager runs; out: what differs.

Where it does not, runs with moved roundings show how far the function changes from call to call
instead of what rounding does, and everything would be allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch


def not_repeated(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much results differ that a second run from the same state gave anew.

    Those which differ by more than rounding does: sums in no fixed order, on a GPU, differ by less.
    Gradients are left out; some are zero but for rounding.
    """
    found = {}
    for name, one in first.items():
        other: Any = second.get(name)
        if name.startswith("gradient of ") or type(one) is not type(other):
            continue
        if isinstance(one, int | float):
            with suppress(OverflowError):  # too large an integer to say by how much
                one, other = (torch.tensor(float(x), dtype=torch.float64) for x in (one, other))
        if isinstance(one, torch.Tensor):
            by = _differs(one, other)
            if by:
                found[name] = by
    return found


def _differs(one: torch.Tensor, other: Any) -> float:
    """Return by how much; 0 if rounding explains it, or if they are of different forms."""
    forms = [(value.shape, value.dtype, value.layout) for value in (one, other)]
    if forms[0] != forms[1] or one.layout is not torch.strided or not one.numel():
        return 0.0
    wide = torch.complex128 if one.is_complex() else torch.float64
    first, second = (value.detach().to(wide).nan_to_num() for value in (one, other))
    by = float((first - second).abs().max())
    is_exact = not (one.is_floating_point() or one.is_complex())
    allowed = 0.0 if is_exact else more_than_rounding(one) * float(first.abs().max())
    return by if by > allowed else 0.0


def more_than_rounding(result: torch.Tensor) -> float:
    """Return an error, relative to the largest value of a result, that few roundings make."""
    return float(torch.finfo(result.dtype).eps ** 0.5)
