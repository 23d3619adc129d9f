"""``python -m tests.fuzz N``: run N random programs on the virtual device, and say what was found.

A program is drawn from a seed, its number; every 150 run in a process of their own.  What is done
stays in the folder (``--folder``, ``fxregion-fuzz`` by default): the same command goes on where one
was stopped and tries anew what failed without a reason, and several may run at the same time.
Exits with 1 if anything was found that has no reason in ``known.md``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.chunk import is_settled, outcomes_of, rows_of

CHUNK = 150
ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what is missing, then report."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("count", type=int, help="how many programs")
    parser.add_argument("--folder", type=Path, default=Path("fxregion-fuzz"))
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chunks = range(asked.first, asked.first + asked.count, CHUNK)
    for first in chunks:
        if _claim(folder, first):
            _run_chunk(folder, first, min(CHUNK, chunks.stop - first))
    return report(folder, chunks)


def _claim(folder: Path, seed: int) -> bool:
    """Take a chunk that is not done and that no living process works at."""
    claim = folder / f"{seed}.pid"
    try:
        with claim.open("x") as file:
            file.write(str(os.getpid()))
        return True
    except FileExistsError:
        if _is_done(folder / f"{seed}.jsonl") or _is_alive(claim.read_text()):
            return False
        claim.unlink()
        return _claim(folder, seed)


def _is_alive(pid: str) -> bool:
    return pid.isdigit() and int(pid) != os.getpid() and Path(f"/proc/{pid}").exists()


def _is_done(log: Path) -> bool:
    return any("done" in row for row in rows_of(log)) and all(map(is_settled, outcomes_of(log)))


def _run_chunk(folder: Path, first: int, count: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.chunk", str(first), str(count), str(folder)]
    log = folder / f"{first}.jsonl"
    for _ in range(count):  # a process that a program ends is followed by another
        with (folder / f"{first}.txt").open("a") as said:
            subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=False)
        if not log.exists() or "done" in rows_of(log)[-1]:
            break
    print(f"from seed {first}: {len(outcomes_of(log))} programs", flush=True)


def report(folder: Path, chunks: range) -> int:
    """Print the counts of all chunks; 1 if something is unexplained."""
    outcomes: Counter[str] = Counter()
    warned: Counter[str] = Counter()
    unexplained: Counter[str] = Counter()
    regions = 0
    for first in chunks:
        for row in outcomes_of(folder / f"{first}.jsonl"):
            regions += row["regions"]
            warned.update(text.rpartition("(")[2].rstrip(")") for text in row["said"])
            if row["kind"] == "ok":
                outcomes["agree with eager in every check"] += 1
            elif row["explained"]:
                outcomes[f"explained: {row['explained']}"] += 1
            else:
                unexplained[row["kind"]] += 1
    total = outcomes.total() + unexplained.total()
    print(f"\n{total} programs, {regions} compiled regions")
    for text, count in outcomes.most_common():
        print(f"{count:6} {text}")
    for text, count in warned.most_common():
        print(f"{count:6} warned, {text}")
    print(f"{unexplained.total():6} unexplained" + (":" if unexplained else ""))
    for kind, count in unexplained.most_common():
        print(f"{count:6} {kind}")
    for path in sorted((folder / "findings").glob("*.py")):
        print(f"\n==== {path}\n{path.read_text(encoding='utf-8')}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
