"""The page of differences.  In: what a comparison found; out: ``docs/differences.md``."""

from __future__ import annotations

from collections.abc import Sequence

from .outcome import Difference
from .reasons import reason

HEADER = "| test | graph | torch's pass | this one |\n|---|---|---|---|\n"

INTRODUCTION = """\
# Differences from torch's own pass

`torch.fx.passes.regional_inductor` compiles annotated regions too. This page lists every function
of the examples and the regression suite of which the two passes make something else, and why.
It is written by

<!-- not run: compiles the whole suite twice -->
```sh
python -m tests.conformance --write
```

which runs the suite, gives torch's pass a copy of each graph that ours compiles, and compares the
pieces node by node. Both are compiled by Inductor and run. The suite holds our results against
eager's ([checks.md](checks.md)); torch's are held against ours, with `torch.testing`'s tolerances.
A difference without a reason fails the command. What torch loses *before* its pass runs, while it
traces, is not in here, as both passes were given the same graphs.
"""


def page(
    differences: Sequence[Difference], *, torch: str, runs: int, graphs: int, equal: int
) -> str:
    """Return the page's text, its sections in order of the kinds' names, rows of the tests'."""
    parts = [
        INTRODUCTION,
        f"\nLast run: torch {torch}, virtual h100. {runs} runs with {graphs} graphs were compared; "
        f"{equal} runs are the same in pieces and numbers.\n",
    ]
    for kind in sorted({difference.kind for difference in differences}):
        alike = (difference for difference in differences if difference.kind == kind)
        rows = sorted(alike, key=lambda row: (row.test, row.graph))
        parts.append(f"\n## {kind[:1].upper()}{kind[1:]}\n\n{reason(kind) or 'UNEXPLAINED'}\n\n")
        parts.append(HEADER)
        parts += [
            f"| {_cell(r.test)} | {r.graph} | {_cell(r.torch)} | {_cell(r.ours)} |\n" for r in rows
        ]
    return "".join(parts)


def unexplained(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences whose kind has no reason."""
    return [difference for difference in differences if reason(difference.kind) is None]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
