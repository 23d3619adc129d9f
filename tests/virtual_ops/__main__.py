"""``python -m tests.virtual_ops``: every operator, and the list of those that do not pass.

Takes about a minute.  Exits with 1 if an operator fails for which :mod:`.reasons` has no reason.
"""

from __future__ import annotations

import collections
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from pytest_fxregion.device import virtual
from tests.virtual_ops.reasons import reason_of

LIST = Path(__file__).with_name("not_passing.md")
SECONDS_FOR_ONE = 60


def main() -> int:
    virtual.load()
    with virtual.activate("h100"):
        # The database asks torch.cuda about the device while it is imported.
        from tests.virtual_ops import comparison

        results = [
            _timed(comparison, op, dtype)
            for op in comparison.operators()
            for dtype in comparison.DTYPES
        ]
    outcomes = collections.Counter(result.outcome for result in results)
    rows = []
    unexplained = 0
    for result in results:
        if result.outcome == "passed":
            continue
        reason = reason_of(result.op, result.reason)
        unexplained += reason is None
        text = reason or f"NO REASON: {result.reason}"
        rows.append(f"| `{result.op}` | {result.dtype} | {result.outcome} | {text} |")
    LIST.write_text(_document(outcomes, rows), encoding="utf-8")
    print(f"{dict(outcomes)}; {unexplained} without a reason; written to {LIST.name}")
    return 1 if unexplained else 0


def _timed(comparison: Any, op: Any, dtype: str) -> Any:
    def too_long(*_: object) -> NoReturn:
        raise TimeoutError(f"not done in {SECONDS_FOR_ONE} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS_FOR_ONE)
    try:
        return comparison.compare(op, dtype)
    except TimeoutError as error:
        return comparison.Result(comparison.name_of(op), dtype, "failed", str(error))
    finally:
        signal.alarm(0)


def _document(outcomes: collections.Counter[str], rows: list[str]) -> str:
    import torch

    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    head = f"""\
# Operators that do not pass on the virtual CUDA device

Written by `python -m tests.virtual_ops`: torch {torch.__version__}'s operator database, float32
and bfloat16, the first sample of each, forward and backward, against the CPU.

{counts}. *Skipped* is what the comparison cannot be made for, *failed* what it was made for and
did not hold.

| operator | type | outcome | reason |
|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n"


sys.exit(main())
