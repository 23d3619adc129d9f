"""Sizes in bytes, symbolic ones among them: texts in, sums of them as a person reads them out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_UNITS = ("KiB", "MiB", "GiB")
_TERM = re.compile(r"(?P<sign>-?)(?:(?P<count>\d+)(?:\*(?P<factor>.+))?|(?P<symbol>.+))")


def parse_size(text: str) -> Counter[str]:
    """Return how often each product of symbols counts; the key of plain bytes is empty.

    ``64*s27*s77 + 8`` is 64 times ``s27*s77`` and 8 times ``""``.  What is in parentheses counts
    as one symbol.
    """
    total: Counter[str] = Counter()
    for sign, term in _terms(text):
        found = _TERM.fullmatch(term)
        if found is not None:
            factor = found["factor"] or found["symbol"] or ""
            negative = (found["sign"] == "-") != (sign == "-")
            total[factor] += int(found["count"] or 1) * (-1 if negative else 1)
    return total


def _terms(text: str) -> Iterable[tuple[str, str]]:
    """Split a sum where it is in no parentheses."""
    sign, start, depth = "+", 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if not depth and text[at : at + 3] in {" + ", " - "}:
            yield sign, text[start:at]
            sign, start = character if character != " " else text[at + 1], at + 3
    yield sign, text[start:]


def size(count: int) -> str:
    """Return a number of bytes as a person reads it, ``8.0 KiB``; exact below 1 KiB."""
    if abs(count) < 1024:
        return f"{count} B"
    unit = min((abs(count).bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**unit:.1f} {_UNITS[unit - 1]}"


def difference(total: Mapping[str, int]) -> str:
    """Return a difference of sizes, ``+4.0 KiB - 64*s27 B``; ``as many bytes`` if there is none."""
    parts = []
    for factor, count in sorted(total.items()):
        if count:
            amount = abs(count)
            product = factor if amount == 1 else f"{amount}*{factor}"
            parts.append(("-" if count < 0 else "+", f"{product} B" if factor else size(amount)))
    if not parts:
        return "as many bytes"
    (sign, first), *rest = parts
    return " ".join([f"{sign}{first}", *(f"{sign} {text}" for sign, text in rest)])
