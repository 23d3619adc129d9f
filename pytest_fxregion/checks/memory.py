"""Hold what a forward saves for the backward against a bound.

Comes in: the saved values of a run's graphs, and the bound as a number of bytes or as text.  Goes
out: nothing, or the error's text, with the largest values and where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_fxregion.capture.record import SavedValue
from pytest_fxregion.errors import OptionError
from pytest_fxregion.snapshots.sizes import size

SHOWN = 8

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?i?B)")
_UNITS = {
    "B": 1,
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)},
}


def parse_bytes(bound: int | str) -> int:
    """Return a bound in bytes: a number as it is, ``"1.5 MiB"`` or ``"2 MB"`` as what it means.

    Raises :class:`~pytest_fxregion.errors.OptionError` for anything else.
    """
    if isinstance(bound, int) and not isinstance(bound, bool) and bound >= 0:
        return bound
    found = _SIZE.fullmatch(bound.strip()) if isinstance(bound, str) else None
    if found is None or found["unit"] not in _UNITS:
        raise OptionError(
            f"a size is a number of bytes or a text like '1.5 MiB' "
            f"({', '.join(_UNITS)}), not {bound!r}"
        )
    return int(float(found["number"]) * _UNITS[found["unit"]])


def too_much_saved(saved: Sequence[SavedValue], bound: int) -> str | None:
    """Return what to say if more than ``bound`` bytes are saved, the largest values first."""
    total = sum(value.nbytes for value in saved)
    if total <= bound:
        return None
    largest = sorted(saved, key=lambda value: -value.nbytes)
    shown = "the one value" if len(saved) == 1 else f"the largest of {len(saved)} values"
    lines = [
        f"{size(total)} are saved for the backward, {size(bound)} at most were asked for "
        f"({size(total - bound)} too much); {shown}:"
    ]
    lines += [f"  {_described(value)}" for value in largest[:SHOWN]]
    rest = largest[SHOWN:]
    if rest:
        lines.append(f"  and {len(rest)} more: {size(sum(value.nbytes for value in rest))}")
    return "\n".join(lines)


def _described(value: SavedValue) -> str:
    if value.region is not None:
        origin = f"a result of {value.region}"
    else:
        origin = "an input of the graph" if value.is_input else "computed outside of regions"
    place = "" if value.source is None else f", {value.source}"
    return f'{size(value.nbytes)}  {value.name}: "{value.type}", {origin}{place}'
