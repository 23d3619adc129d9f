"""The README's test, its commands and what it says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def without_times(text: str) -> list[str]:
    return [re.sub(r"\d+\.\d s$", "- s", line).rstrip() for line in text.splitlines()]


def test_the_readme_shows_what_happens(tmp_path: Path) -> None:
    (test,) = blocks("python")
    run_text, forward, difference, accepting = blocks("text")
    # The README shows a run on a machine without a GPU, with the torch of everyday work.
    options = ("--fxregion", "--fxregion-device=virtual")
    project = Project(tmp_path)
    project.write({"pytest.ini": "[pytest]\n", "tests/test_block.py": test})

    recorded = project.run(*options, "--snapshot-update")
    assert recorded.code == 0, recorded.text
    (snapshot,) = tmp_path.glob("snapshots/test_block/test_block.fx.txt")
    assert forward.strip() in snapshot.read_text(encoding="utf-8")

    passed = project.run(*options)
    assert passed.code == 0, passed.text
    printed = without_times(passed.text)
    shown = [line for line in without_times(run_text) if not line.startswith("fxregion: torch")]
    assert [line for line in shown if line not in printed] == []

    changed = test.replace("        h = h * w + 1\n", "        h = h * w\n    h = h + 1\n")
    project.write({"tests/test_block.py": changed})
    failed = project.run(*options)
    assert failed.code == 1, failed.text
    matcher = pytest.LineMatcher(failed.lines)
    matcher.fnmatch_lines(difference.strip().splitlines())
    (command,) = accepting.strip().splitlines()[-1:]
    # The README leaves out the device, which is the default there.
    matcher.fnmatch_lines([command.replace(" --snapshot", "* --snapshot")])
