"""A graph's text in, the same text with terminal colours out."""

from __future__ import annotations

import re

_DIM, _BLUE, _GREEN, _RESET = "\033[2m", "\033[34m", "\033[32m", "\033[0m"

_COMMENT = re.compile(r"^( *)(#.*)$", re.MULTILINE)
_ANNOTATION = re.compile(r'(: )("[^"\n]*")')
_FREED = re.compile(r";  ((?:\w+ = )+None)$", re.MULTILINE)


def colored_text(text: str) -> str:
    """Return ``text`` with types in blue, comments in green and freed values dimmed."""
    text = _ANNOTATION.sub(rf"\1{_BLUE}\2{_RESET}", text)
    text = _FREED.sub(rf";  {_DIM}\1{_RESET}", text)
    return _COMMENT.sub(rf"\1{_GREEN}\2{_RESET}", text)
