"""A line diff in near-linear time: two texts in, a unified diff out.

Patience diff (Bram Cohen): lines that occur once in each text are anchors, the longest run of
anchors in the same order is kept, and what lies between them is treated the same way.  difflib is
quadratic on texts that differ everywhere: 110 s on 50,000 renumbered lines, where this takes 0.1.
Gaps without an anchor go to difflib, for its finer result, if they are small; in large ones (equal
layers, whose lines all occur again and again) the nearest place is looked for where both texts go
on alike.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

_SMALL = 10_000  # old lines times new lines of a gap that difflib may have
_ALIKE = 6  # lines in a row that make two places alike
_FAR = 200  # lines to look ahead, in both texts together


def changed_blocks(
    old: Sequence[Hashable], new: Sequence[Hashable]
) -> list[tuple[int, int, int, int]]:
    """Return ``(i1, i2, j1, j2)`` for each block ``old[i1:i2]`` that ``new[j1:j2]`` replaces.

    Blocks are in order; what lies between two of them is equal.
    """
    blocks: list[tuple[int, int, int, int]] = []
    gaps = [(0, len(old), 0, len(new))]
    while gaps:
        i1, i2, j1, j2 = gaps.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
        if i1 == i2 and j1 == j2:
            continue
        anchors = _anchors(old, i1, i2, new, j1, j2) if i1 < i2 and j1 < j2 else []
        if anchors:
            for i, j in anchors:
                gaps.append((i1, i, j1, j))
                i1, j1 = i, j
            gaps.append((i1, i2, j1, j2))
        elif i1 < i2 and j1 < j2 and (i2 - i1) * (j2 - j1) <= _SMALL:
            matcher = difflib.SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False)
            for tag, a1, a2, b1, b2 in matcher.get_opcodes():
                if tag != "equal":
                    blocks.append((i1 + a1, i1 + a2, j1 + b1, j1 + b2))
        elif i1 < i2 and j1 < j2 and (ahead := _alike_ahead(old, i1, i2, new, j1, j2)):
            i, j = ahead
            blocks.append((i1, i, j1, j))
            gaps.append((i, i2, j, j2))
        else:
            blocks.append((i1, i2, j1, j2))
    return sorted(blocks)


def _alike_ahead(
    old: Sequence[Hashable], i1: int, i2: int, new: Sequence[Hashable], j1: int, j2: int
) -> tuple[int, int] | None:
    """Return the nearest places in two gaps from which on they are alike for a while.

    Of all places those that leave out about as much of both come first: where everything occurs
    again a layer later, a change of one line should not be taken for one of a whole layer.
    """
    for more in range(_FAR):
        for i, j in ((i1 + more, j1), (i1, j1 + more)) if more else ((i1, j1),):
            for step in range(min((_FAR - more) // 2, i2 - i - _ALIKE + 1, j2 - j - _ALIKE + 1)):
                if old[i + step] == new[j + step] and all(
                    old[i + step + n] == new[j + step + n] for n in range(1, _ALIKE)
                ):
                    return i + step, j + step
    return None


def unified(
    old: Sequence[str], new: Sequence[str], *, context: int = 2, headings: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines of a unified diff (without file names).

    Args:
        old: lines of the old text.
        new: lines of the new text.
        context: how many lines around a change are shown.
        headings: for each old line, what the header of a hunk that begins there says after the
            positions.

    """
    hunk: list[tuple[int, int, int, int]] = []
    for block in changed_blocks(old, new):
        if hunk and block[0] - hunk[-1][1] > 2 * context:
            yield from _hunk(old, new, hunk, context, headings)
            hunk = []
        hunk.append(block)
    if hunk:
        yield from _hunk(old, new, hunk, context, headings)


def _hunk(
    old: Sequence[str],
    new: Sequence[str],
    blocks: list[tuple[int, int, int, int]],
    context: int,
    headings: Sequence[str],
) -> Iterator[str]:
    start, end = max(blocks[0][0] - context, 0), min(blocks[-1][1] + context, len(old))
    new_start = start + blocks[0][2] - blocks[0][0]
    new_end = end + blocks[-1][3] - blocks[-1][1]
    heading = f" {headings[start]}" if start < len(headings) else ""
    yield f"@@ -{start + 1},{end - start} +{new_start + 1},{new_end - new_start} @@{heading}"
    at = start
    for i1, i2, j1, j2 in blocks:
        yield from (f" {line}" for line in old[at:i1])
        yield from (f"-{line}" for line in old[i1:i2])
        yield from (f"+{line}" for line in new[j1:j2])
        at = i2
    yield from (f" {line}" for line in old[at:end])


def _anchors(
    old: Sequence[Hashable], i1: int, i2: int, new: Sequence[Hashable], j1: int, j2: int
) -> list[tuple[int, int]]:
    places: dict[Hashable, int] = {}
    for j in range(j1, j2):
        places[new[j]] = -1 if new[j] in places else j
    seen: dict[Hashable, int] = {}
    for i in range(i1, i2):
        seen[old[i]] = -1 if old[i] in seen else i
    pairs = [(i, places.get(line, -1)) for line, i in seen.items() if i >= 0]
    pairs = sorted(pair for pair in pairs if pair[1] >= 0)
    return [pairs[k] for k in longest_increasing([j for _, j in pairs])]


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest strictly increasing subsequence of ``values``."""
    tails: list[int] = []
    ends: list[int] = []
    previous = [-1] * len(values)
    for k, value in enumerate(values):
        at = bisect_left(tails, value)
        if at == len(tails):
            tails.append(value)
            ends.append(k)
        else:
            tails[at], ends[at] = value, k
        previous[k] = ends[at - 1] if at else -1
    chain: list[int] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        chain.append(k)
        k = previous[k]
    return chain[::-1]
