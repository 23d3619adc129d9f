"""An error of ours, as a person reads it: where the test's code called us, and what is wrong.

Comes in: the call's exception.  Goes out: what takes the traceback's place in the report.  A
traceback would end in pytest's own lines; here the last line is the command to run next.  Read back
from a report, it is a :class:`~pytest_fxregion.report.machine.Failure`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_fxregion.commands import test_command
from pytest_fxregion.errors import CheckError, FxRegionError
from pytest_fxregion.report.painting import CALL, COMMAND, PaintedFailure

if TYPE_CHECKING:
    from pytest_fxregion.report.machine import Failure

_OWN = Path(__file__).parents[1]
_MOST_LINES = 60


def plain_failure(
    item: pytest.Item, call: pytest.CallInfo[None], options: Sequence[str]
) -> str | None:
    """Return the text of a failed check, or None if the test failed in another way.

    Its last line is a command: the check's own, or the one that runs the test again with
    ``options``.  ``--full-trace`` asks for the traceback.
    """
    if call.excinfo is None or item.config.getoption("fulltrace", False):
        return None
    error = _ours(call.excinfo.value)
    if error is None:
        return None
    kind = "" if isinstance(error, CheckError) else f"{type(error).__name__}: "
    # A line of the user's begins the message of an annotation: shown as those above it are.
    words = str(error).removeprefix(f"{item.config.rootpath}{os.sep}")
    lines = [*_call_lines(item, call), *f"{kind}{words}".splitlines()]
    if not COMMAND.fullmatch(lines[-1]):
        lines += ["", "To run this test again:", test_command(item, options)]
    return "\n".join(lines)


def _ours(error: BaseException) -> FxRegionError | None:
    """Return the error of this package that a test failed with; dynamo wraps those of a backend."""
    for each in (error, getattr(error, "inner_exception", None)):
        if isinstance(each, FxRegionError):
            return each
    return None


def read_failure(report: pytest.TestReport, rootdir: Path) -> Failure:
    """Return what a failed report says: of a check its own words, of anything else the error's."""
    from pytest_fxregion.report.machine import Failure

    ours = isinstance(report.longrepr, PaintedFailure)
    crash = None if ours else getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr or "") if crash is None else str(crash.message)
    lines = [line.rstrip() for line in text.removeprefix("Failed: ").splitlines()] or [""]
    file, line = _place(report)
    if crash is not None and Path(crash.path).is_relative_to(rootdir):
        file, line = Path(crash.path).relative_to(rootdir).as_posix(), int(crash.lineno)
    while len(lines) > 1 and (call := CALL.fullmatch(lines[0])):
        if not (rootdir / call["file"]).is_file():
            break
        file, line = Path(call["file"]).as_posix(), int(call["line"])
        del lines[0]
    command = lines[-1] if COMMAND.fullmatch(lines[-1]) else None
    words = lines[: lines.index("")] if "" in lines[1:] else lines
    return Failure(file, line, tuple(words[:_MOST_LINES]), command)


def _place(report: pytest.TestReport) -> tuple[str, int]:
    file, line, _ = report.location
    return Path(file).as_posix(), (line or 0) + 1


def _call_lines(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[str]:
    """The lines of the user's own code that led to the error, the innermost last."""
    assert call.excinfo is not None
    root = item.config.rootpath
    for entry in call.excinfo.traceback.filter(call.excinfo):
        file = Path(entry.path)
        installed = "site-packages" in file.parts or file.is_relative_to(_OWN)
        if file.is_relative_to(root) and not installed:
            yield f"{file.relative_to(root)}:{entry.lineno + 1}: {_code(entry)}"


def _code(entry: object) -> str:
    statement = str(getattr(entry, "statement", "")).strip()
    return statement.splitlines()[0] if statement else ""
