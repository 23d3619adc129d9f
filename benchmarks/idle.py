"""What the plugin costs a pytest run that does not ask for it.

``pytest`` on an empty folder, with the plugin and without it (``-p no:fxregion``), alternating,
each in a process of its own.  CPU time of the process, the median of the differences of pairs.
Byte code is written once, into a folder of this run, whatever ``PYTHONDONTWRITEBYTECODE`` says.

    python benchmarks/idle.py [PAIRS]
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "idle.json"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
HEAVY = ("torch", "triton", "numpy", "syrupy")


def cpu_seconds(arguments: list[str], folder: str, environment: dict[str, str]) -> float:
    """CPU time, user and system, of one run of pytest in an empty folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*PYTEST, *arguments], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 5, done.stdout  # nothing was collected
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def imported_on_our_account(folder: str) -> list[str]:
    """Heavy modules that a run has with the plugin and would not have without it."""
    code = (
        "import sys, pytest; pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    def imported(*arguments: str) -> set[str]:
        command = [sys.executable, "-c", code, "-p", "no:syrupy", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        names: list[str] = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
        return set(names)

    return sorted(imported() - imported("-p", "no:fxregion"))


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in ([], ["-p", "no:fxregion"]):  # byte code is written
            cpu_seconds(arguments, folder, environment)
        without, more = [], []
        for number in range(pairs):
            order = ([], ["-p", "no:fxregion"]) if number % 2 else (["-p", "no:fxregion"], [])
            times = {len(given): cpu_seconds(given, folder, environment) for given in order}
            without.append(times[2])
            more.append(times[0] - times[2])
        found = {
            "pairs": pairs,
            "python": platform.python_version(),
            "without_ms": round(1000 * statistics.median(without), 1),
            "more_with_ms": round(1000 * statistics.median(more), 1),
            "ratio": round(1 + statistics.median(more) / statistics.median(without), 3),
            "imported_on_our_account": imported_on_our_account(folder),
        }
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
