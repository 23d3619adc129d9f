"""One chunk of random programs, in a process of its own: ``python -m tests.fuzz.chunk``.

Comes in: the first seed, how many, and a folder.  Goes out: ``<first>.jsonl`` there, a line as each
program starts, one as it is done and one at the end, and in ``findings/`` the smallest program of
each sort of failure.  What a seed means depends on the version of Hypothesis and on the grammar.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import hypothesis
from hypothesis import Phase, settings

from pytest_fxregion.device import Device, virtual
from tests.fuzz.known import explanation
from tests.fuzz.programs import Program, programs
from tests.fuzz.shrinking import shrunk

if TYPE_CHECKING:
    from tests.fuzz.trial import Outcome  # imports torch, which the device must come before

# A failure is made smaller as long as this many further programs have not been run for it.
SHRINKING = 100
ARCHITECTURE = "h100"
# Every so many programs one is compiled twice.
TWICE = 20
ENDED = "the process ended in the middle of a program"
_NOTHING: dict[str, Any] = {"explained": None, "seconds": 0.0, "regions": 0, "said": []}


def main(first: int, count: int, folder: Path) -> int:
    """Run the programs of ``count`` seeds, but for those that are done; 0 if it came to the end.

    What failed without a reason is run again.
    """
    log = folder / f"{first}.jsonl"
    done = {row["seed"] for row in outcomes_of(log) if is_settled(row) or row["kind"] == ENDED}
    started = [row for row in rows_of(log) if "source" in row and "kind" not in row]
    times = Counter(row["seed"] for row in started)
    known = {row["seed"] for row in outcomes_of(log)}
    # Once a process may have been stopped; twice it is the program that ends it.
    unfinished = {r["seed"]: r for r in started if r["seed"] not in known and times[r["seed"]] > 1}
    virtual.load()
    with virtual.activate(ARCHITECTURE), log.open("a", encoding="utf-8", buffering=1) as file:
        file.write("\n")  # the last line may have been cut off
        for row in unfinished.values():
            print(json.dumps({**row, "kind": ENDED, **_NOTHING}), file=file)
        done |= unfinished.keys()
        _run([seed for seed in range(first, first + count) if seed not in done], folder, file)
        print(json.dumps({"done": count}), file=file)
    return 0


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Return what a chunk has written: a row as a program starts, one with its ``kind`` after."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        with suppress(ValueError):  # cut off as the process was stopped
            rows.append(json.loads(line))
    return rows


def outcomes_of(log: Path) -> list[dict[str, Any]]:
    """Return the last outcome of each program of a chunk."""
    return list({row["seed"]: row for row in rows_of(log) if "kind" in row}.values())


def is_settled(outcome: dict[str, Any]) -> bool:
    """Whether a program agreed with eager, or failed for a reason that is known."""
    return outcome["kind"] == "ok" or outcome["explained"] is not None


def _run(seeds: Sequence[int], folder: Path, log: TextIO) -> None:
    from tests.fuzz.torchs_own import differs
    from tests.fuzz.trial import run

    device = Device("virtual", "cuda:0", f"virtual {ARCHITECTURE} (no GPU)", ARCHITECTURE)
    work = folder / f"work-{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    findings = folder / "findings"
    findings.mkdir(exist_ok=True)
    for seed in seeds:
        program = drawn(seed)
        print(json.dumps({"seed": seed, "source": str(program)}), file=log)
        outcome = run(str(program), work, device, twice=seed % TWICE == 0)
        torch_fails = partial(differs, str(program), work, device)
        reason = None if outcome.ok else explanation(outcome.text, str(program), torch_fails)
        row = {
            "seed": seed,
            "kind": outcome.kind,
            "explained": reason,
            "seconds": round(outcome.seconds, 2),
            "regions": outcome.regions,
            "said": outcome.said,
            "source": str(program),
        }
        print(json.dumps(row), file=log)
        path = findings / f"{_slug(outcome.kind)}.py"
        if outcome.ok or reason is not None or path.exists():
            continue
        path.write_text(_finding(seed, program, outcome), encoding="utf-8")
        smallest = outcome

        def fails(candidate: Program, kind: str = outcome.kind) -> bool:
            nonlocal smallest
            tried = run(str(candidate), work, device)
            if tried.kind == kind:
                smallest = tried
            return tried.kind == kind

        program = shrunk(program, fails, SHRINKING)
        path.write_text(_finding(seed, program, smallest), encoding="utf-8")
    shutil.rmtree(work)


def drawn(seed: int) -> Program:
    """Return the program that Hypothesis draws from a seed.

    Its first example is always the simplest there is; the second is the first random one.
    """
    found: list[Program] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs())
    def each(program: Program) -> None:
        found.append(program)

    each()
    return found[-1]


def _slug(kind: str) -> str:
    words = re.sub(r"[^a-zA-Z]+", "-", kind).strip("-")[:60]
    return f"{words}-{hashlib.sha256(kind.encode()).hexdigest()[:6]}"


def _finding(seed: int, program: Program, outcome: Outcome) -> str:
    lines = (f"seed {seed}: {outcome.kind}", *outcome.text.splitlines()[-40:])
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + f"\n{program}"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
