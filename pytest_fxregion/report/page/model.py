"""What the page shows, as plain data: tests in, an index and one record for each test out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OUTCOMES = ("failed", "error", "xpassed", "passed", "xfailed", "skipped")  # worst first, as listed
BAD = ("failed", "error")

_COMMAND = re.compile(r"^(?P<what>.+, run.*:)\n(?P<command>(?:pytest|python) .+)$", re.MULTILINE)
_OPERATOR = re.compile(r"torch\.ops\.(?P<name>[\w.]+)")


@dataclass(frozen=True)
class Test:
    """One test.

    Attributes:
        nodeid: pytest's.
        outcome: one of :data:`OUTCOMES`: the worst of its phases.
        text: why it did not pass, as pytest prints it.
        runs: of :func:`pytest_fxregion.report.page.collect.run_data`.
        difference: of :func:`pytest_fxregion.report.page.difference.difference`, with the ``path``
            of the snapshot, where one differs or is missing.

    """

    __test__ = False  # pytest must not take this class for a test's

    nodeid: str
    outcome: str
    text: str
    runs: Sequence[Mapping[str, Any]]
    difference: Mapping[str, Any] | None

    @classmethod
    def of(
        cls,
        nodeid: str,
        outcomes: Sequence[str],
        text: str,
        runs: Sequence[Mapping[str, Any]],
        difference: Mapping[str, Any] | None,
    ) -> Test:
        """Put a test together from the outcomes of its phases."""
        worst = ("failed", "error", "xfailed", "skipped", "xpassed", "passed")
        outcome = next((each for each in worst if each in outcomes), "passed")
        return cls(nodeid, outcome, text, runs, difference if outcome in BAD else None)

    @property
    def command(self) -> dict[str, str] | None:
        """What to do next and the command that does it, which end the text of a failed check."""
        found = list(_COMMAND.finditer(self.text))
        return found[-1].groupdict() if found else None

    def entry(self) -> dict[str, Any]:
        """Return the test's entry in the index: what is listed, searched and filtered by."""
        return {
            "nodeid": self.nodeid,
            "outcome": self.outcome,
            "runs": [run["figures"] for run in self.runs],
            "devices": sorted({run["figures"]["device"] for run in self.runs}),
            "regions": list(dict.fromkeys(label for run in self.runs for label in run["labels"])),
            "operators": sorted({name for run in self.runs for name in operators(run)}),
            "headline": self.headline,
        }

    @property
    def headline(self) -> str:
        """What is wrong, in a line."""
        if self.difference is not None and self.difference["summary"]:
            return str(self.difference["summary"][0])
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        errors = [line[2:].strip() for line in lines if line.startswith("E ")]
        if len(errors) > 1 and errors[0].endswith(
            ":"
        ):  # "… raised:", and what was on the next line
            errors = [f"{errors[0]} {errors[1]}"]
        where = re.compile(r"^\S+:\d+: ")  # of pytest's own line above a failure
        plain = [line for line in lines if not where.match(line) and not line.startswith(">")]
        return next(iter(errors or plain or lines), "")

    def record(self) -> dict[str, Any]:
        """Return all that is shown of the test once it is opened."""
        return {
            "nodeid": self.nodeid,
            "outcome": self.outcome,
            "text": self.text,
            "command": self.command,
            "runs": list(self.runs),
            "difference": self.difference,
        }


@dataclass(frozen=True)
class Page:
    """A run: its torch, its device, its tests in any order."""

    torch: str
    device: str
    tests: Sequence[Test]

    def ordered(self) -> list[Test]:
        """Return the tests as they are listed: what failed first, then by node id."""
        return sorted(self.tests, key=lambda test: (test.outcome not in BAD, test.nodeid))

    def index(self) -> dict[str, Any]:
        """Return what the page needs before any test is opened."""
        counts = {
            outcome: sum(test.outcome == outcome for test in self.tests) for outcome in OUTCOMES
        }
        return {
            "torch": self.torch,
            "device": self.device,
            "counts": {outcome: count for outcome, count in counts.items() if count},
            "tests": [test.entry() for test in self.ordered()],
        }


def operators(run: Mapping[str, Any]) -> set[str]:
    """Return the names of the operators in a run's graphs, ``aten.mul.Tensor``."""
    return {
        match["name"]
        for graph in run["graphs"]
        for stage in graph["stages"]
        for target in stage["nodes"]["target"]
        if (match := _OPERATOR.match(target)) is not None
    }


def finite(value: Any) -> Any:
    """Return a value with numbers that JSON does not have as text: ``"nan"``, ``"inf"``."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
