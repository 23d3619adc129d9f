"""The terminal summary: one row a run, and what was not run for want of a GPU.

Comes in: the reports of all tests, from this process and from xdist's workers.  Goes out: lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pytest_fxregion.color import colored_text
from pytest_fxregion.report.region_map import region_map
from pytest_fxregion.session import PROPERTY, SHOWN

COLUMNS = ("test", "regions fw/bw", "nodes", "saved", "grad acc", "error/allowed", "time")


def write_summary(reporter: pytest.TerminalReporter, device: str, notes: Iterable[str]) -> None:
    """Write the section of this plugin; nothing where there is nothing to say.

    ``device`` is what the tests ran on; ``notes`` are lines about snapshots: written, unused,
    orphaned.
    """
    reports = [
        report
        for outcome in ("passed", "failed", "skipped", "xfailed", "xpassed")
        for report in reporter.getreports(outcome)
        if isinstance(report, pytest.TestReport)
    ]
    hidden = reporter.config.option.showcapture == "no"
    for report in reports:
        if report.failed and not hidden:
            continue  # pytest has shown it below the failure
        for title, content in report.sections:
            if report.when == "call" and SHOWN in title:
                reporter.write_sep("-", report.nodeid)
                reporter.write_line(colored_text(content) if reporter.hasmarkup else content)
    missing = not_run_for_want_of_a_gpu(reports)
    maps = region_maps(reports) if reporter.config.option.verbose > 0 else []
    lines = [
        *maps,
        *summary_table(reports),
        *spilling(reports),
        *([missing] if missing else []),
        *notes,
    ]
    if lines:
        reporter.write_sep("-", f"fxregion on {device}")
        for line in lines:
            reporter.write_line(line)


def summary_table(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the lines of the table: a row for each run of each test that got as far as running."""
    rows = [row_cells(report.nodeid, figures) for report, figures in _runs(reports)]
    return _aligned([COLUMNS, *rows]) if rows else []


def region_maps(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return, for each run of each test, the lines that say which regions it has."""
    lines: list[str] = []
    for report, figures in _runs(reports):
        lines += [*region_map(row_cells(report.nodeid, figures)[0], figures), ""]
    return lines


def spilling(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each test with kernels that spill registers, where they were compiled."""
    return [
        f"{report.nodeid}: registers spill in {', '.join(figures['spilling'])}"
        for report, figures in _runs(reports)
        if figures["spilling"]
    ]


def _runs(
    reports: Iterable[pytest.TestReport],
) -> Iterator[tuple[pytest.TestReport, dict[str, Any]]]:
    """Yield each run's figures with its test's report, sorted by test.

    The report of a part of a test, a subtest's, has what was run so far; the test's has it all.
    """
    for report in sorted(reports, key=lambda r: r.nodeid):
        if hasattr(report, "context"):
            continue
        for name, value in report.user_properties:
            if name == PROPERTY and report.when == "call":
                yield report, json.loads(str(value))


def not_run_for_want_of_a_gpu(reports: Iterable[pytest.TestReport]) -> str | None:
    """Return a line that counts the tests that need a GPU where none is."""
    count = sum(
        isinstance(report.longrepr, tuple) and "needs a GPU" in report.longrepr[2]
        for report in reports
    )
    if not count:
        return None
    return f"{count} test{'s' if count > 1 else ''} not run for want of a GPU"


def row_cells(nodeid: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a run's row, for :data:`COLUMNS`."""
    name = nodeid if figures["name"] is None else f"{nodeid} ({figures['name']})"
    graphs = f" in {figures['graphs']} graphs" if figures["graphs"] > 1 else ""
    part = figures["worst_of_allowed"]
    return (
        name,
        f"{figures['regions_forward']}/{figures['regions_backward']}{graphs}",
        str(figures["nodes"]),
        bytes_text(figures["saved_bytes"]),
        str(figures["gradient_accumulations"]),
        "not checked" if part is None else part_text(float(part)),
        f"{figures['seconds']:.1f} s",
    )


def part_text(part: float) -> str:
    """Return how much of what is allowed an error is: ``0.12``; more than 1 is too much."""
    if part == 0:
        return "0"
    if part < 0.005:
        return "<0.01"
    if part > 1:
        part = max(part, 1.01)
    return f"{part:.2f}" if part < 1000 else f"{part:.1e}"


def bytes_text(count: int) -> str:
    """Return a size as people read it: ``512 B``, ``8.0 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
