"""Results of three runs in, how many elements are off by how much out.  Needs torch.

Errors are counted by their size in roundings: one is the result's epsilon times its largest value.
A bin is a power of two wide, so that a constant factor between eager and regional is a shift.
"""

from __future__ import annotations

import math
from typing import Any

import torch

LOWEST, HIGHEST = -6, 10  # powers of two; what is smaller or larger is in the outermost bins


def histogram(
    eager: object, regional: object, reference: object, *, against: str
) -> dict[str, Any] | None:
    """Return the errors of both runs in bins; None where there is nothing to be measured.

    Args:
        eager: eager's result.
        regional: the regional run's.
        reference: the float64 run's, or anything else where there is none.
        against: ``float64`` or ``eager``: what the check held the result against.

    Returns:
        ``lowest`` and ``highest``, the powers of two of the bins' upper ends; ``unit``, the size
        of one rounding; ``regional`` and, against float64, ``eager``: counts, first of elements
        without any error, then of each bin.

    """
    if not isinstance(eager, torch.Tensor) or not isinstance(regional, torch.Tensor):
        return None
    if eager.shape != regional.shape or not (eager.is_floating_point() or eager.is_complex()):
        return None
    wide = torch.complex128 if eager.is_complex() else torch.float64
    values = _plain(eager, wide)
    exact = values
    if against == "float64" and isinstance(reference, torch.Tensor):
        if reference.shape != eager.shape:
            return None
        exact = _plain(reference, wide)
    finite = torch.isfinite(exact) & torch.isfinite(values)
    largest = float(exact.abs()[finite].max()) if bool(finite.any()) else 0.0
    unit = torch.finfo(eager.dtype).eps * largest
    if not unit or not math.isfinite(unit):
        return None
    found: dict[str, Any] = {"lowest": LOWEST, "highest": HIGHEST, "unit": unit}
    found["regional"] = _counts((_plain(regional, wide) - exact).abs()[finite] / unit)
    if exact is not values:
        found["eager"] = _counts((values - exact).abs()[finite] / unit)
    return found


def _counts(errors: torch.Tensor) -> list[int]:
    powers = torch.log2(errors).ceil().nan_to_num(nan=HIGHEST, posinf=HIGHEST, neginf=LOWEST - 1)
    places = torch.where(errors == 0, -1.0, powers.clamp(LOWEST, HIGHEST) - LOWEST)
    bins = HIGHEST - LOWEST + 2
    return [int(n) for n in torch.bincount(places.long().flatten() + 1, minlength=bins).tolist()]


def _plain(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg().to(dtype)
