"""Colours for failures, where pytest's own output has them: on a terminal, or ``--color=yes``."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_fxregion.session import PROPERTY

_COMMAND = re.compile(r"(?:pytest|python) .*")


class PaintedFailure(str):
    """A failure's text.  pytest asks it to write itself; to all others it is a string."""

    def toterminal(self, writer: Any) -> None:
        """Write the text; the writer leaves colours out where it should."""
        lines = self.split("\n")
        in_diff = False
        for line in lines:
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
            report.longrepr = PaintedFailure(report.longrepr)
