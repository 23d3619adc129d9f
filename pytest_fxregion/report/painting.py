"""Failures as pytest writes them: colours where it has them, and in its summary what was found."""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_fxregion.session import PROPERTY

_COMMAND = re.compile(r"(?:pytest|python) .*")
_CALL = re.compile(r"\S+\.py:\d+: ")


class PaintedFailure:
    """The text of a test's failure, which writes itself where pytest asks it to."""

    def __init__(self, text: str, test: str) -> None:
        self._lines = text.split("\n")
        # For the lines of pytest's summary, which name the test, and for JUnit's messages; a diff
        # would fill them.
        found = "\n".join(takewhile(bool, dropwhile(_CALL.match, self._lines)))
        self.reprcrash = SimpleNamespace(message=found.removeprefix(f"{test}: "))

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
                writer.line(line, bold=_COMMAND.fullmatch(line) is not None)


def configure(config: pytest.Config) -> None:
    """Begin: call on the process that gathers the reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Painter(), "fxregion-painter")


class Painter:
    """Where reports are gathered: has the text of our failures write itself."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Change the report of a test whose runs were checked."""
        ours = any(name == PROPERTY for name, _ in report.user_properties)
        if ours and report.failed and type(report.longrepr) is str:
            painted = PaintedFailure(report.longrepr, report.nodeid)
            report.longrepr = painted  # type: ignore[assignment]
