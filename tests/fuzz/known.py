"""Failures that have a reason outside of this project; ``known.md`` says each in full."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason's name in ``known.md``; what a failure's text holds, and what its program does."""

    name: str
    said: str
    done: str = ""


REASONS = (
    Reason(
        "eager refuses: what autograd saved is written to",
        r"in _run_eager\n[\s\S]*RuntimeError: one of the variables needed for gradient computation "
        r"has been modified by an inplace operation",
        r"_\(|\] = ",
    ),
    Reason(
        "nothing compiled: dynamo does not trace a Function that takes one tensor twice",
        r"torch\.compile made no graph of the function and ran it eagerly",
        r"Gate\.apply\((\w+), \1\)",
    ),
    Reason(
        "a view taken under no_grad is given a gradient by AOTAutograd",
        r"gradients of outputs are there, and \d+ results of this call can take one",
        r"with torch\.no_grad\(\):",
    ),
)


def explanation(text: str, source: str) -> str | None:
    """Return the name of the reason why ``source`` failed with ``text``, or None."""
    for reason in REASONS:
        if re.search(reason.said, text) and re.search(reason.done, source):
            return reason.name
    return None
