"""A check that failed, as a person reads it: where the test called it, and what it found.

Comes in: the call's exception.  Goes out: what takes the traceback's place in the report.  A
traceback would end in pytest's own lines; here the last line is the command to run next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_fxregion.errors import CheckError

_OWN = Path(__file__).parents[1]


def plain_failure(item: pytest.Item, call: pytest.CallInfo[None]) -> str | None:
    """Return the text of a failed check, or None if the test failed in another way."""
    if call.excinfo is None or not isinstance(call.excinfo.value, CheckError):
        return None
    return "\n".join([*_call_lines(item, call), str(call.excinfo.value)])


def _call_lines(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[str]:
    """The lines of the user's own code that led to the check, the innermost last."""
    assert call.excinfo is not None
    for entry in call.excinfo.traceback.filter(call.excinfo):
        file = Path(entry.path)
        if file.is_relative_to(_OWN) or not file.is_relative_to(item.config.rootpath):
            continue
        if file.is_relative_to(item.path.parent) or file == item.path:
            yield f"{file.relative_to(item.config.rootpath)}:{entry.lineno + 1}: {_code(entry)}"


def _code(entry: object) -> str:
    statement = str(getattr(entry, "statement", "")).strip()
    return statement.splitlines()[0] if statement else ""
