"""Run the examples and the regression suite on several torch versions and write README's table.

    python scripts/versions_table.py [--write] PYTHON [PYTHON ...]

Each ``PYTHON`` is the interpreter of an environment with this package and one torch; ``make compat
TORCH=2.14.1`` makes them as ``.venv-torch-2.14.1/bin/python``.  Without ``--write`` the table is
only printed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE = ("examples", "tests/regions")
HEADER = (
    "| torch | Triton | Python | device | passed | failed | skipped |\n"
    "|---|---|---|---|---|---|---|\n"
)
VERSIONS = (
    "import platform; from importlib.metadata import version; "
    "print(version('torch'), version('triton'), platform.python_version())"
)


def main() -> int:
    """Run every version, print the table, write it where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = [row(python) for python in arguments.pythons]
    table = HEADER + "".join(rows)
    print(table)
    if arguments.write:
        readme = ROOT / "README.md"
        text = readme.read_text(encoding="utf-8")
        marked = r"(<!-- versions -->\n).*?(<!-- end of versions -->)"
        replaced, count = re.subn(marked, rf"\g<1>{table}\g<2>", text, flags=re.DOTALL)
        if count != 1:
            print("README.md has no place for the table", file=sys.stderr)
            return 2
        readme.write_text(replaced, encoding="utf-8")
    return 0


def row(python: str) -> str:
    """Run the suite with one interpreter; return its line of the table."""
    asked = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    torch, triton, own = asked.stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        command = [python, "-m", "pytest", *SUITE, "-q", "-p", "no:cacheprovider"]
        command += ["--fxregion", "--fxregion-device=virtual", f"--junitxml={xml}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr)
        (suite,) = ElementTree.parse(xml).iter("testsuite")
    count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    cells = (torch, triton, own, "virtual h100", passed, failed, count["skipped"])
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.exit(main())
