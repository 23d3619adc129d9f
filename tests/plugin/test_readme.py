"""The README's test, its commands and what it says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def without_times(text: str) -> list[str]:
    return [re.sub(r"\d+\.\d s$", "- s", line).rstrip() for line in text.splitlines()]


def test_the_readme_shows_what_happens(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    (test,) = blocks("python")
    run_text, forward, difference, accepting = blocks("text")
    # The README shows a run on a machine without a GPU, with the torch of everyday work.
    options = ("--fxregion", "--fxregion-device=virtual")
    file = pytester.mkdir("tests") / "test_block.py"
    file.write_text(test, encoding="utf-8")

    pytester.runpytest_subprocess(*options, "--snapshot-update").assert_outcomes(passed=1)
    (snapshot,) = pytester.path.glob("snapshots/test_block/test_block.fx.txt")
    assert forward.strip() in snapshot.read_text(encoding="utf-8")

    passed = pytester.runpytest_subprocess(*options)
    passed.assert_outcomes(passed=1)
    printed = without_times(passed.stdout.str())
    shown = [line for line in without_times(run_text) if not line.startswith("fxregion: torch")]
    assert [line for line in shown if line not in printed] == []

    file.write_text(
        test.replace("        h = h * w + 1\n", "        h = h * w\n    h = h + 1\n"),
        encoding="utf-8",
    )
    failed = pytester.runpytest_subprocess(*options)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(difference.strip().splitlines())
    (command,) = accepting.strip().splitlines()[-1:]
    # The README leaves out the device, which is the default there.
    failed.stdout.fnmatch_lines([command.replace(" --snapshot", "* --snapshot")])
