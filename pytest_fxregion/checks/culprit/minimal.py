"""The smallest part of a list that still fails.  In: items and a test; out: some of the items.

Plain Python: knows neither torch nor pytest.  It serves twice, for the pieces of a compilation and
for the operations of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def minimal_failing(
    items: Sequence[T], fails: Callable[[Sequence[T]], bool], *, limit: int = 200
) -> list[T]:
    """Return items that fail together, and without any one of which the rest does not.

    ``fails`` must hold for all items; it need not hold for more where it holds for less.  This is
    Zeller's delta debugging ("Simplifying and isolating failure-inducing input", TSE 2002): about
    2 log2(n) tests where one item is to blame, at most n² where many have to come together.  After
    ``limit`` tests the smallest list that is known to fail is returned.
    """
    remaining = list(range(len(items)))
    known: dict[tuple[int, ...], bool] = {}

    def test(chosen: Sequence[int]) -> bool:
        key = tuple(chosen)
        if key not in known:
            if len(known) >= limit:
                return False
            known[key] = fails([items[i] for i in key])
        return known[key]

    parts = 2
    while len(remaining) > 1:
        chunks = _split(remaining, parts)
        smaller = next((chunk for chunk in chunks if test(chunk)), None)
        if smaller is not None:
            remaining, parts = smaller, 2
            continue
        without = (_without(remaining, chunk) for chunk in chunks)
        # Of two halves, one without the other is the other.
        smaller = next((rest for rest in without if test(rest)), None) if parts > 2 else None
        if smaller is not None:
            remaining, parts = smaller, max(parts - 1, 2)
        elif parts < len(remaining):
            parts = min(2 * parts, len(remaining))
        else:
            break
    return [items[i] for i in remaining]


def _without(items: Sequence[int], chunk: Sequence[int]) -> list[int]:
    left_out = set(chunk)
    return [item for item in items if item not in left_out]


def _split(items: Sequence[int], parts: int) -> list[list[int]]:
    """Cut a list into ``parts`` of nearly equal length, in order."""
    bounds = [len(items) * k // parts for k in range(parts + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds)]
