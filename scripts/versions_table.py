"""Run the examples and the regression suite on several versions and write README's table.

    python scripts/versions_table.py [--write] [--jobs N] [DEVICE:]PYTHON ...

Each ``PYTHON`` is the interpreter of an environment with this package's dependencies and one torch;
``make compat TORCH=2.14.1`` makes them as ``.venv-torch-2.14.1/bin/python``, ``PYTHON=python3.13``
with another Python.  ``DEVICE`` is as in ``--fxregion-device``, ``virtual`` if not said.
Without ``--write`` the table is only printed; ``--jobs`` is how many of them run at a time.  Exits
with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE = ("examples", "tests/regions")
COLUMNS = (
    "torch",
    "Triton",
    "Python",
    "pytest",
    "syrupy",
    "device",
    "passed",
    "failed",
    "skipped",
)
VERSIONS = (
    "import platform; from importlib.metadata import version; "
    "print(version('torch'), version('triton'), platform.python_version(), "
    "version('pytest'), version('syrupy'))"
)
_MARKED = re.compile(r"(<!-- versions -->\n).*?(<!-- end of versions -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One environment: its versions, in the order of the columns, and what became of the tests."""

    versions: tuple[str, ...]
    device: str
    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        cells = (*self.versions, self.device, self.passed, self.failed, self.skipped)
        return _line(cells)


def main() -> int:
    """Run every version, print the table, write it where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("environments", nargs="+", metavar="[DEVICE:]PYTHON")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(measured, arguments.environments))
    print(table(rows))
    if arguments.write:
        readme = ROOT / "README.md"
        readme.write_text(replaced(readme.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return int(any(row.failed for row in rows))


def measured(environment: str) -> Row:
    """Run the suite with one interpreter, ``/path/to/python`` or ``cpu:/path/to/python``."""
    *named, python = environment.split(":", 1)
    device = named[0] if named else "virtual"
    asked = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        command = [python, "-m", "pytest", *SUITE, "-q", "-p", "no:cacheprovider"]
        command += ["--fxregion", f"--fxregion-device={device}", f"--junitxml={xml}"]
        command.append(f"--fxregion-artifacts={folder}")  # several may run at a time
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=variables, stdout=sys.stderr)
        passed, failed, skipped = figures(xml.read_text(encoding="utf-8"))
    named_device = "virtual h100" if device == "virtual" else device
    return Row(tuple(asked.stdout.split()), named_device, passed, failed, skipped)


def figures(junit: str) -> tuple[int, int, int]:
    """Return how many tests passed, failed (errors among them) and were skipped."""
    (suite,) = ElementTree.fromstring(junit).iter("testsuite")
    tests, failures, errors, skipped = (
        int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
    )
    return tests - failures - errors - skipped, failures + errors, skipped


def table(rows: Sequence[Row]) -> str:
    """Return the table's Markdown, rows in order of torch, Python, pytest, syrupy and device."""

    def order(row: Row) -> tuple[list[list[int]], bool]:
        torch, _, *others = row.versions
        numbers = [[int(n) for n in re.findall(r"\d+", v)[:3]] for v in (torch, *others)]
        return numbers, row.device == "cpu"

    rule = "|" + "---|" * len(COLUMNS) + "\n"
    return _line(COLUMNS) + rule + "".join(map(str, sorted(rows, key=order)))


def replaced(readme: str, rows: Sequence[Row]) -> str:
    """Return the text of README with the table in its place.

    Raises :class:`ValueError` where there is no place for it, or several.
    """
    text, count = _MARKED.subn(lambda found: found[1] + table(rows) + found[2], readme)
    if count != 1:
        raise ValueError(f"README.md has {count} places for the table of versions, not one")
    return text


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.exit(main())
