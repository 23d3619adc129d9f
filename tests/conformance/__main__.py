"""``python -m tests.conformance [--write] [PATH…]``: compare, print the page, write it if asked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"


def main() -> int:
    """Run the comparison; return 0 if every difference has a reason and every test passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("paths", nargs="*", default=["examples", "tests/regions"])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument(
        "--without-inductor", action="store_true", help="run torch's pieces as they are: quicker"
    )
    arguments = parser.parse_args()
    plugin = _Loader(inductor=not arguments.without_inductor)
    status = pytest.main(
        [
            *arguments.paths,
            "-q",
            "--fxregion",
            "--fxregion-device=virtual",
            "-p",
            "no:cacheprovider",
        ],
        plugins=[plugin],
    )
    import torch

    from .table import page, unexplained

    found = plugin.comparison
    text = page(
        found.differences,
        torch=torch.__version__,
        runs=found.runs,
        graphs=found.graphs,
        equal=found.equal_runs,
    )
    print(text)
    for difference in unexplained(found.differences):
        print(f"no reason for: {difference}", file=sys.stderr)
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    return int(status != 0 or bool(unexplained(found.differences)))


class _Loader:
    """Brings the comparison in once the virtual device stands: it must come before torch."""

    def __init__(self, *, inductor: bool) -> None:
        self._inductor = inductor

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        from .suite import ComparingPlugin, Comparison

        self.comparison = Comparison(inductor=self._inductor)
        session.config.pluginmanager.register(ComparingPlugin(self.comparison))


if __name__ == "__main__":
    sys.exit(main())
