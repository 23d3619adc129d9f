"""Properties of tests for JUnit files: ``--junitxml`` writes a report's ``user_properties``.

Comes in: reports, from this process and from xdist's workers.  Goes out: the same reports, the
figures of each run as properties of their own, ``fxregion.nodes`` or ``fxregion.NAME.nodes``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_fxregion.session import PROPERTY


def configure(config: pytest.Config) -> None:
    """Begin: call on the process that gathers the reports; does nothing without ``--junitxml``."""
    if getattr(config.option, "xmlpath", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(JUnitProperties(), "fxregion-junit")


class JUnitProperties:
    """Where reports are gathered: writes figures as properties that JUnit's readers can show."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Change the report from which pytest takes a test's properties: that of its tear-down."""
        if report.when != "teardown":
            return
        figures = [json.loads(str(value)) for name, value in report.user_properties if _own(name)]
        others = [(name, value) for name, value in report.user_properties if not _own(name)]
        report.user_properties = [*others, *properties(figures)]


def properties(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield names and values; several runs of a test are told apart by name, else by position."""
    names = [run["name"] for run in runs]
    times = Counter(names)
    for position, run in enumerate(runs):
        name = run["name"]
        if name is None or times[name] > 1:
            name = str(position) if len(runs) > 1 else None
        prefix = PROPERTY if name is None else f"{PROPERTY}.{name}"
        yield from ((f"{prefix}.{key}", value) for key, value in _values(run))


def _values(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in run.items():
        if key in {"name", "regions"} or value is None or value == []:
            continue
        yield key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _own(name: str) -> bool:
    return name == PROPERTY
