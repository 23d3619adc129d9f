"""Failures as pytest writes them: colours where it has them, and in its summary what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Any

import pytest

# The lines that the text of a failed check begins with, and the one that it ends with.
CALL = re.compile(r"(?P<file>[^\s:][^:]*\.py):(?P<line>\d+): .*")
COMMAND = re.compile(r"(?:pytest|python) .*")
_MOST_FOUND = 5
_DIFFERS = re.compile(r"\S.* differs from what was compiled on .*:")


@dataclass(frozen=True)
class Crash:
    """What a test failed of, for pytest's lines of a test: its summary, ``--tb=line``, JUnit.

    Attributes:
        place: ``tests/test_a.py:7``, where the test called the check; empty if that is not known.
        message: what was found. Of the summary's line little more than its beginning is seen, so
            that is what differs, not the name of the file.

    """

    place: str
    message: str

    def __str__(self) -> str:
        first = self.message.partition("\n")[0]
        return f"{self.place}: {first}" if self.place else first


def found_first(lines: Sequence[str]) -> list[str]:
    """Return the beginning of a failure for a place that has room for few lines.

    First comes what differs, and the file that it differs from last; what is left out is counted.
    """
    first, *rest = lines
    if not rest or not _DIFFERS.fullmatch(first):
        return list(lines)
    left_out = len(rest) - _MOST_FOUND
    lines = "line" if left_out == 1 else "lines"
    more = [f"... and {left_out} more {lines} of this"] if left_out > 0 else []
    return [*rest[:_MOST_FOUND], *more, first.removesuffix(":")]


class PaintedFailure:
    """The text of a test's failure, which writes itself where pytest asks it to."""

    def __init__(self, text: str, test: str) -> None:
        self._lines = text.split("\n")
        calls = list(takewhile(CALL.match, self._lines))
        place = ":".join(calls[-1].split(":")[:2]) if calls else ""
        # What follows is for a person who looks at this one test; a diff would fill the lines.
        found = list(takewhile(bool, dropwhile(CALL.match, self._lines)))
        message = "\n".join(found_first(found)).removeprefix(f"{test}: ").removeprefix(f"{test} ")
        self.reprcrash = Crash(place, message)

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def toterminal(self, writer: Any) -> None:
        """Write the text; the writer leaves colours out where it should."""
        in_diff = False
        for line in self._lines:
            in_diff = (in_diff or line.startswith("@@ ")) and line != ""
            if in_diff and line.startswith("@@"):
                writer.line(line, cyan=True)
            elif in_diff and line[:1] in "+-":
                writer.line(line, green=line[0] == "+", red=line[0] == "-")
            else:
                writer.line(line, bold=COMMAND.fullmatch(line) is not None)


def configure(config: pytest.Config) -> None:
    """Begin: call on the process that gathers the reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Painter(), "fxregion-painter")


class Painter:
    """Where reports are gathered: has the text of our failures write itself."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Change the report of a test that failed of one of our checks: its text ends so."""
        text = report.longrepr
        if report.failed and type(text) is str and COMMAND.fullmatch(text.rpartition("\n")[2]):
            painted = PaintedFailure(text, report.nodeid)
            report.longrepr = painted  # type: ignore[assignment]
