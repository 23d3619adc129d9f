"""``compare``: a comparison of two folders in, one page or JSON out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_fxregion.review.folders import (
    Folder,
    FolderComparison,
    compare_folders,
    read_folder,
)
from pytest_fxregion.review.grouping import Occurrence

FORMAT = "fxregion-compare"
VERSION = 1
MOST_TESTS = 12

_EPILOG = """\
exit status: 0 nothing differs; 1 something does; 2 a folder or a file in it cannot be read.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="say what changed between two folders of snapshots, over the whole suite",
        description="Say what changed between two folders of snapshots, over the whole suite.",
        epilog=_EPILOG,
    )
    parser.add_argument("a", metavar="DIR_A", type=Path, help="as it was")
    parser.add_argument("b", metavar="DIR_B", type=Path, help="as it is")
    parser.add_argument("--json", action="store_true", help="everything, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare; returns the exit status.

    Raises:
        FxRegionError: a folder is not there or holds no snapshots.

    """
    found = compare_folders(read_folder(arguments.a), read_folder(arguments.b))
    lines = [json.dumps(as_json(found), indent=2)] if arguments.json else page(found)
    for line in lines:
        print(line)
    if found.a.unreadable or found.b.unreadable:
        return 2
    same = not (found.changed or found.renumbered or found.only_in_a or found.only_in_b)
    return 0 if same else 1


def page(found: FolderComparison) -> Iterator[str]:
    """Yield the lines of the page: totals, then changes by kind, the most frequent ones first."""
    yield f"A: {_folder_line(found.a)}"
    yield f"B: {_folder_line(found.b)}"
    yield ""
    counts = (
        (len(found.equal), "equal"),
        (len(found.renumbered), "with other numbers in names only"),
        (len(found.changed), "changed"),
        (len(found.only_in_a), "only in A"),
        (len(found.only_in_b), "only in B"),
        (len(found.a.unreadable) + len(found.b.unreadable), "unreadable"),
    )
    for count, what in counts:
        if count or what in {"equal", "changed"}:
            yield f"{count:6} {what}"
    for heading, groups in groupby(found.groups, key=lambda group: group.heading):
        listed = list(groups)
        tests = {occurrence.test for group in listed for occurrence in group.tests}
        yield from _heading(heading, len(tests))
        for group in listed:
            yield group.what
            yield from _listed([_occurrence_line(each) for each in group.tests])
    for what, names in (
        ("other numbers in names only", found.renumbered),
        ("only in A: removed tests, or not recorded in B", found.only_in_a),
        ("only in B: new tests, or not recorded in A", found.only_in_b),
    ):
        if names:
            yield from _heading(what, len(names))
            yield from _listed(names)
    unreadable = [*found.a.unreadable.values(), *found.b.unreadable.values()]
    if unreadable:
        yield from _heading("unreadable", len(unreadable))
        yield from (f"    {reason}" for reason in unreadable)


def as_json(found: FolderComparison) -> dict[str, Any]:
    """Return the comparison as plain values: the page's groups, and every change of every test."""
    return {
        "format": FORMAT,
        "version": VERSION,
        **{
            name: {
                "folder": str(folder.path),
                "provenances": list(folder.provenances),
                "tests": len(folder.documents),
                "unreadable": dict(folder.unreadable),
            }
            for name, folder in (("a", found.a), ("b", found.b))
        },
        "equal": list(found.equal),
        "renumbered": list(found.renumbered),
        "only_in_a": list(found.only_in_a),
        "only_in_b": list(found.only_in_b),
        "groups": [asdict(group) for group in found.groups],
        "changed": [asdict(each) for each in found.changed],
    }


def _folder_line(folder: Folder) -> str:
    texts = folder.provenances
    more = f"; and {len(texts) - 2} more" if len(texts) > 2 else ""
    plural = "s" if len(folder.documents) != 1 else ""
    return f"{folder.path}, {len(folder.documents)} snapshot{plural} ({'; '.join(texts[:2])}{more})"


def _heading(text: str, count: int) -> Iterator[str]:
    yield ""
    yield f"== {text} ({count} test{'s' if count != 1 else ''})"


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"    {line}" for line in lines[:MOST_TESTS])
    if len(lines) > MOST_TESTS:
        yield f"    ... and {len(lines) - MOST_TESTS} more; --json lists them all"


def _occurrence_line(occurrence: Occurrence) -> str:
    times = f", {occurrence.count} times" if occurrence.count > len(occurrence.stages) > 0 else ""
    where = f" ({', '.join(occurrence.stages)}{times})" if occurrence.stages else ""
    detail = f": {occurrence.detail}" if occurrence.detail else ""
    return f"{occurrence.test}{detail}{where}"
