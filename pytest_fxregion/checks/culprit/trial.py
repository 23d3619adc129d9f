"""Compile a part by itself and hold it against eager.  In: a part; out: how its results differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pytest_fxregion._torch.inductor import patched_inductor_config
from pytest_fxregion.call import widened
from pytest_fxregion.checks.culprit.pieces import copied
from pytest_fxregion.checks.culprit.shrink import Part
from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.numerics import Tolerance, compare
from pytest_fxregion.checks.roundings import Samples


def differences(
    part: Part, configs: Mapping[str, object], tolerance: Tolerance | None
) -> tuple[Difference, ...]:
    """Return the results that differ; none if the part cannot be compiled or run by itself.

    Compiled by ``torch.compile`` as the script that shows the difference does it, under the
    region's ``configs``, and compared as the run is: by the rule, or with the test's tolerance.
    """
    try:
        eager = _run(part.module, part.inputs)
        compiled = _compiled(part, configs)
    except Exception:  # whatever a part may raise: it shows no difference
        return ()
    samples = Samples(lambda: _run(part.module, part.inputs), seed=0)
    found = compare(eager, compiled, _reference(part), samples=samples, tolerance=tolerance)
    return tuple(difference for difference in found if difference.problem is not None)


def _compiled(part: Part, configs: Mapping[str, object]) -> dict[str, Any]:
    with patched_inductor_config({"fallback_random": True, **configs}):
        return _run(torch.compile(part.module, dynamic=False), part.inputs)


def _reference(part: Part) -> dict[str, Any] | None:
    """Return what the part gives in float64; None if it fixes a precision of its own."""
    wide = [widened(i) if isinstance(i, torch.Tensor) else i for i in part.inputs]
    try:
        results = _run(part.module, wide)
    except Exception:  # an operator that does not take float64 may raise anything
        return None
    low = any(
        isinstance(r, torch.Tensor) and r.is_floating_point() and r.dtype != torch.float64
        for r in results.values()
    )
    return None if low else results


def _run(function: Any, inputs: Any) -> dict[str, Any]:
    """Run from the same seed every time; results by their number."""
    torch.manual_seed(0)
    with torch.no_grad():
        results = function(*copied(inputs))
    return {f"result {i}": result for i, result in enumerate(results)}
