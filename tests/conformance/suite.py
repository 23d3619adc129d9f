"""Run the suite, each function a second time with torch's pass.  Out: differences and counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
import torch

from pytest_fxregion.harness import FxRegion
from pytest_fxregion.run import RegionRun

from .outcome import Difference, compared
from .reasons import failure_kind
from .torch_pass import torchs_pass


@dataclass
class Comparison:
    """What was compared so far."""

    inductor: bool
    runs: int = 0
    graphs: int = 0
    equal_runs: int = 0
    differences: list[Difference] = field(default_factory=list)

    def of(
        self, harness: FxRegion, function: Callable[..., Any], call: Any, mine: RegionRun
    ) -> None:
        """Run the function with torch's pass and note what differs from ``mine``."""
        found = list(self._differences(harness, function, call, mine))
        self.runs += 1
        self.graphs += sum(r.stage != "joint" for g in mine.graphs for r in g.stages())
        self.equal_runs += not found
        self.differences += found

    def _differences(
        self, harness: FxRegion, function: Callable[..., Any], call: Any, mine: RegionRun
    ) -> list[Difference]:
        name = mine.test if mine.name is None else f"{mine.test} ({mine.name})"
        args, kwargs = call
        runs = len(harness.runs)
        try:
            with torchs_pass(inductor=self.inductor), warnings.catch_warnings(action="ignore"):
                other = _plain_call(harness, function, *args, **kwargs)
        except Exception as error:
            text = _first_line(error)
            kind = failure_kind(f"{type(error).__name__}: {error}")
            return [Difference(name, "all", kind or "unexplained failure", text, "runs")]
        finally:
            del harness.runs[runs:]
        found = list(compared(name, mine, other))
        wrong = _disagreement(mine, other)
        if wrong is not None:
            effects = any(difference.kind == "order of effects" for difference in found)
            kind = "order of effects" if effects else "wrong numbers"
            found.append(Difference(name, "results", kind, wrong, "as eager's"))
        return found


_plain_call = FxRegion.__call__
_plain_eager = FxRegion._run_eager
_plain_float64 = FxRegion._run_in_float64


@contextmanager
def _kept(results: dict[str, Any], *, again: bool) -> Iterator[None]:
    """Keep what eager gives in the first call of a function, and give it again in the second."""

    def keeping(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(harness: FxRegion, *args: Any, **kwargs: Any) -> Any:
            if not again:
                results[name] = method(harness, *args, **kwargs)
            return results[name]

        return run

    with (
        patch.object(FxRegion, "_run_eager", keeping("eager", _plain_eager)),
        patch.object(FxRegion, "_run_in_float64", keeping("float64", _plain_float64)),
    ):
        yield


def both_ways(
    comparison: Comparison,
    harness: FxRegion,
    function: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> RegionRun:
    """Run a function with our pass, then with torch's; return our run."""
    eager: dict[str, Any] = {}
    with _kept(eager, again=False):
        mine = _plain_call(harness, function, *args, **kwargs)
    with _kept(eager, again=True):
        comparison.of(harness, function, (args, kwargs), mine)
    return mine


class ComparingPlugin:
    """A pytest plugin that compares every run of the tests that it sees."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """Wrap the harness for the time of a test."""

        def both(
            harness: FxRegion, function: Callable[..., Any], /, *args: Any, **kwargs: Any
        ) -> RegionRun:
            return both_ways(self.comparison, harness, function, *args, **kwargs)

        with patch.object(FxRegion, "__call__", both):
            return (yield)


def _disagreement(mine: RegionRun, other: RegionRun) -> str | None:
    """Return which result of both differs by more than torch.testing allows, and by how much."""
    ours, theirs = mine.regional.values, other.regional.values
    if ours.keys() != theirs.keys():
        return f"other results: {sorted(ours.keys() ^ theirs.keys())}"
    for name, value in ours.items():
        if not isinstance(value, torch.Tensor):
            continue
        try:
            torch.testing.assert_close(theirs[name], value, equal_nan=True)
        except AssertionError as error:
            return f"{name}: {str(error).splitlines()[0]}"
    return None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = next((line for line in lines if not line.startswith("backend=")), "")
    return f"{type(error).__name__}: {text}"[:160]
