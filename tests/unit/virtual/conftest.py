"""Tests that need the virtual device run in a process of their own.

The device has to be loaded before torch is imported, and the rest of the suite runs on a plain CPU
in this process.  A file ``on_device_*.py`` is not collected by pytest's own rules: each of its test
functions becomes an item here, and the first of them to run starts one process for the whole file.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

ROOT = Path(__file__).parents[3]
PLUGIN = "tests.unit.virtual.loaded"
# What torch answers outside of the device: in a fork builds for CUDA give another answer.
NOT_IN_A_FORK = "on_device_activation"

RESULTS = pytest.StashKey[dict[Path, dict[str, list[tuple[str, str]]]]]()
FILES = pytest.StashKey[list[Path]]()


class DeviceFile(pytest.File):
    """One ``on_device_*.py``."""

    def collect(self) -> Iterator[pytest.Item]:
        self.config.stash.setdefault(FILES, []).append(self.path)
        for node in ast.parse(self.path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield DeviceItem.from_parent(self, name=node.name)

    def results(self) -> dict[str, list[tuple[str, str]]]:
        """Outcome and failure text of each test function, one of each parameter set."""
        known = self.config.stash.setdefault(RESULTS, {})
        if self.path not in known:
            alone = "PYTEST_XDIST_WORKER" in os.environ or self.path.stem == NOT_IN_A_FORK
            others = [path for path in self.config.stash[FILES] if path.stem != NOT_IN_A_FORK]
            known.update(_run([self.path] if alone else others))
        return known.get(self.path, {})


class DeviceItem(pytest.Item):
    def runtest(self) -> None:
        assert isinstance(self.parent, DeviceFile)
        outcomes = self.parent.results().get(self.name, [])
        if not outcomes:
            pytest.fail("the test did not run in the device's process", pytrace=False)
        for outcome, text in outcomes:
            if outcome == "failed":
                pytest.fail(text, pytrace=False)
        if all(outcome == "skipped" for outcome, _ in outcomes):
            pytest.skip(outcomes[0][1])

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collected = yield
    ours = file_path.name.startswith("on_device_") and file_path.suffix == ".py"
    if ours and PLUGIN not in sys.modules:
        # In place of pytest's own, which takes any file that is named on the command line.
        return [DeviceFile.from_parent(parent, path=file_path)]
    return collected


def _run(paths: list[Path]) -> dict[Path, dict[str, list[tuple[str, str]]]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "results.json"
        done = Project(ROOT).run(
            *("-p", PLUGIN, "-q", "-c", os.devnull, f"--rootdir={ROOT}", "-W", "ignore"),
            *("-o", "python_files=on_device_*.py", *map(str, paths)),
            env={"FXREGION_TEST_RESULTS": str(report)},
            anew=paths[0].stem == NOT_IN_A_FORK,
        )
        if not report.exists():
            text = f"the device's process ended with {done.code}:\n{done.text}"
            pytest.fail(text, pytrace=False)
        rows = json.loads(report.read_text(encoding="utf-8"))
    results: dict[Path, dict[str, list[tuple[str, str]]]] = {path: {} for path in paths}
    for file, name, outcome, text in rows:
        results[ROOT / file].setdefault(name, []).append((outcome, text))
    return results
