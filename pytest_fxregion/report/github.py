"""A run as GitHub Actions shows it: annotations on the lines of failed tests, and a page of a job.

Comes in: a :class:`~pytest_fxregion.report.machine.MachineReport`.  Goes out: workflow commands for
the job's log, and Markdown for its summary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_fxregion.report.machine import Failure, MachineReport, TestEntry
from pytest_fxregion.report.painting import found_first
from pytest_fxregion.report.terminal import COLUMNS, row_cells

# GitHub refuses a summary of more than 1 MiB.
MOST_BYTES = 1_000_000
_MOST_ROWS = 500
_CHECKED = ("failed", "error")


def error_annotations(report: MachineReport, prefix: str = "") -> Iterator[str]:
    """Yield a workflow command for each failed test.

    ``prefix`` is the way from the repository's root to pytest's root folder, with a slash, or
    nothing.
    """
    for entry, failure in failures(report):
        where = f"file={_property(prefix + failure.file)},line={failure.line}"
        title = _property(f"fxregion: {entry.nodeid}")
        found = said(replace(failure, text=tuple(found_first(failure.text))))
        yield f"::error {where},title={title}::{_data(chr(10).join(found))}"


def step_summary(report: MachineReport, notes: Sequence[str] = ()) -> str:
    """Return the Markdown of a job's summary: what failed first, then every test's figures.

    ``notes`` are the lines of the terminal's summary about snapshots: unused, not written.
    """
    counts = Counter(entry.outcome for entry in report.tests)
    total = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    head = f"### fxregion on {report.device}, torch {report.torch}\n\n{total}\n"
    parts = [head]
    size = len(head.encode())
    said_of_snapshots = f"\n{_block(notes)}\n" if notes else ""
    for part in (*map(_failed, failures(report)), said_of_snapshots, _table(report)):
        size += len(part.encode())
        if size > MOST_BYTES:
            parts.append("\nThe rest is too long for a summary; all of it is in `fxregion.json`.\n")
            break
        parts.append(part)
    return "".join(parts)


def failures(report: MachineReport) -> Iterator[tuple[TestEntry, Failure]]:
    """Yield the tests that failed in this run, with why."""
    for entry in report.tests:
        if entry.outcome in _CHECKED and not entry.earlier and entry.failure is not None:
            yield entry, entry.failure


def said(failure: Failure) -> list[str]:
    """Return the lines of a failure and, last, the command that accepts or reproduces it."""
    return [*failure.text, *([failure.command] if failure.command is not None else [])]


def _failed(found: tuple[TestEntry, Failure]) -> str:
    entry, failure = found
    title = f"<code>{_html(entry.nodeid)}</code> {entry.outcome}"
    block = _block(said(failure))
    return f"\n<details open><summary>{title}</summary>\n\n{block}\n\n</details>\n"


def _block(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _table(report: MachineReport) -> str:
    rows = [
        row_cells(entry.nodeid, figures)
        for entry in report.tests
        for figures in entry.figures
        if not entry.earlier
    ]
    if not rows:
        return ""
    left_out = len(rows) - _MOST_ROWS
    lines = [COLUMNS, ("---", *("---:" for _ in COLUMNS[1:])), *rows[:_MOST_ROWS]]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    more = f"\n\nand {left_out} more rows" if left_out > 0 else ""
    return f"\n{table}{more}\n"


def _cell(text: str) -> str:
    return _html(text).replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
