"""A run as the fixture would make it, on the CPU and without a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_fxregion import FxRegion, RegionRun
from pytest_fxregion.device import CPU
from pytest_fxregion.options import STAGES


def run_of(function: Callable[..., Any], *args: Any, **options: Any) -> RegionRun:
    """Run the function as a test's fixture would."""
    fxregion = FxRegion(
        test="test_it",
        root=Path(__file__).parent,
        device=CPU,
        stages=STAGES,
        provenance="",
        snapshot=lambda document, *, name: None,
    )
    return fxregion(function, *args, **options)
