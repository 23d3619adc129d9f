"""A test's regions in ten lines, as ``-v`` shows them.

Comes in: the figures of a run, which travel with its test's report.  Goes out: lines, a region or
several equal ones in each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_fxregion.capture.record import GraphRecord

MOST_LINES = 10
_MOST_NAMES = 3


def region_rows(records: Iterable[GraphRecord], root: Path) -> list[dict[str, Any]]:
    """Return what the map needs of each compiled region, as plain values.

    Paths are made relative to ``root``; of a file outside of it the last two parts are kept.
    """
    return [
        {
            "stage": record.stage,
            "name": region.name,
            "label": region.label,
            "kind": region.kind,
            "nodes": len(region.nodes),
            "inputs": list(region.inputs),
            "outputs": list(region.outputs),
            "sources": [_shown(source, root) for source in region.sources],
            "shared_with": region.shared_with,
        }
        for record in records
        for region in record.regions
    ]


def region_map(title: str, figures: Mapping[str, Any]) -> list[str]:
    """Return the lines for one run: its title, and at most nine more."""
    rows = [_row(equal) for equal in _equal(figures["regions"])]
    room = MOST_LINES - 1
    left_out = rows[room - 1 :] if len(rows) > room else []
    shown = rows[: len(rows) - len(left_out)]
    widths = [max((len(row[k]) for row in shown), default=0) for k in range(4)]
    lines = [title]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join([*cells, row[4]]).rstrip())
    if left_out:
        lines.append(f"  and {len(left_out)} more like these")
    if not rows:
        lines.append("  no regions")
    return lines


def _equal(regions: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield regions of one stage with what they share their compiled code with, in order."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for region in regions:
        first = region["shared_with"] or region["name"]
        groups.setdefault((region["stage"], first), []).append(region)
    yield from groups.values()


def _row(equal: Sequence[Mapping[str, Any]]) -> tuple[str, str, str, str, str]:
    first = equal[0]
    more = f" and {len(equal) - 1} equal" if len(equal) > 1 else ""
    kind = "" if first["kind"] in (first["stage"], "inference") else f", {first['kind']}"
    count = first["nodes"]
    return (
        first["stage"] + kind,
        first["name"] + more,
        f"region {first['label']}",
        f"{count} node{'s' if count != 1 else ''}",
        f"{_names(first['inputs'])} → {_names(first['outputs'])}  {_names(first['sources'])}",
    )


def _shown(source: str, root: Path) -> str:
    inside = source.removeprefix(f"{root}{os.sep}")
    return inside if inside != source else os.sep.join(source.split(os.sep)[-2:])


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown}, … {len(names) - _MOST_NAMES} more"
