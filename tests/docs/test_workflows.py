"""The workflow files of ``docs/ci.md``: valid, and their commands do what they are for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import blocks
from tests.plugin.pytest_process import SOURCE_TREE, Project, clean_environment

FILES = {
    block.title: block.text
    for block in blocks((SOURCE_TREE / "docs" / "ci.md").read_text(encoding="utf-8"))
    if block.title is not None
}


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        (".github/workflows/fxregion.yml", "vendor.github-workflows"),
        (".gitlab-ci.yml", "vendor.gitlab-ci"),
    ],
)
def test_a_workflow_is_valid(file: str, schema: str, tmp_path: Path) -> None:
    path = tmp_path / Path(file).name
    path.write_text(FILES[file], encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_precommit_file_names_the_hook() -> None:
    (hook,) = yaml.safe_load((SOURCE_TREE / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    used: Any = yaml.safe_load(FILES[".pre-commit-config.yaml"])
    assert [each["id"] for each in used["repos"][0]["hooks"]] == [hook["id"]]
    assert os.access(SOURCE_TREE / hook["entry"], os.X_OK)


def step(name: str) -> str:
    """The command of a step of the pull request's job."""
    job = yaml.safe_load(FILES[".github/workflows/fxregion.yml"])["jobs"]["virtual"]
    (command,) = [each["run"] for each in job["steps"] if each.get("name") == name]
    assert isinstance(command, str)
    return command


def run(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment()
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = str(SOURCE_TREE)
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={**environment, **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pull_request_that_changes_a_region(tmp_path: Path) -> None:
    """The job fails and says so, on the line and in the summary; a laptop accepts its artifacts."""
    runner, laptop = tmp_path / "runner", tmp_path / "laptop"
    shutil.copytree(SOURCE_TREE / "examples" / "downstream", runner)
    source = runner / "src" / "gated" / "__init__.py"
    text = source.read_text(encoding="utf-8")
    changed = text.replace(
        "            hidden = nn.functional.silu(gate) * up\n",
        "            hidden = nn.functional.silu(gate)\n        hidden = hidden * up\n",
    )
    assert changed != text
    source.write_text(changed, encoding="utf-8")
    shutil.copytree(runner, laptop)
    before = (runner / "snapshots" / "test_gated" / "test_training.fx.txt").read_bytes()

    summary = tmp_path / "summary.md"
    job = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = run(step("Test").replace("-n auto", "-n 1"), runner, **job)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error file=tests/test_gated.py,line=" in done.stdout
    assert "test_training" in summary.read_text(encoding="utf-8")
    assert (runner / "snapshots" / "test_gated" / "test_training.fx.txt").read_bytes() == before

    artifacts = runner / "fxregion-artifacts"
    assert (artifacts / "report.html").exists()
    report = json.loads((artifacts / "fxregion.json").read_text(encoding="utf-8"))
    (failed,) = [test for test in report["tests"] if test["outcome"] == "failed"]
    said = failed["candidates"][0]["summary"][0]
    assert said.endswith("and `mul` in forward left region 'gate'")

    laptops = Project(laptop)
    review = laptops.run("review", "--accept-all", str(artifacts), module="pytest_fxregion")
    assert review.code == 0, review.text
    check = laptops.run("check", module="pytest_fxregion")
    assert check.code == 0, check.text
    accepted = laptops.run("--fxregion-device=virtual")
    assert accepted.code == 0, accepted.text
