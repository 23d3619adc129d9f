"""Tests that are spread over workers in any way, and over machines, leave what one process does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.plugin.snapshots.project import REPOSITORY, Project

TEST = """\
import pytest
from values import doc

@pytest.mark.parametrize("x", ["a", "b", "c"])
def test_{name}(fxregion_snapshot, x):
    assert doc(x) == fxregion_snapshot
"""
FILES = {f"test_{name}/test_{name}[{x}]@cpu": f"{x} 1" for name in ("one", "two") for x in "abc"}


@pytest.fixture
def suite(project: Project) -> Project:
    for name in ("one", "two"):
        project.write(f"tests/test_{name}.py", TEST.format(name=name))
    project.write_snapshot("test_one/test_one[a]-old@cpu", "unused")
    project.write_snapshot("test_one/test_one[gone]@cpu", "its test is gone")
    return project


XDIST = tuple(map(int, version("pytest-xdist").split(".")[:2]))


@pytest.mark.parametrize(
    "dist",
    [
        "loadscope",
        "loadgroup",
        pytest.param(
            "worksteal",
            marks=pytest.mark.skipif(XDIST < (3, 2), reason="pytest-xdist has it from 3.2 on"),
        ),
    ],
)
def test_however_tests_are_dealt_out(suite: Project, dist: str) -> None:
    run = suite.update("-n2", f"--dist={dist}")
    assert (run.status, suite.files()) == (0, FILES)


@pytest.fixture(params=["copied before", "rsynced"])
def workers(
    request: pytest.FixtureRequest, suite: Project, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The options of a run whose two workers are each in a folder of their own."""
    for name, text in FILES.items():
        suite.write_snapshot(name, text)
    options = ["-p", "no:cacheprovider", "--dist=load"]
    for _ in range(2):
        folder = tmp_path_factory.mktemp("worker")
        if request.param == "copied before":
            shutil.copytree(suite.root, folder, dirs_exist_ok=True)
        options += ["--tx", f"popen//chdir={folder}"]
    if request.param == "rsynced":
        # The path is what tells workers which of the folders that they are sent is the project.
        options += [f"--rsyncdir={suite.root}", "-Wignore::DeprecationWarning", str(suite.root)]
    return options


def test_workers_in_copies_of_the_project_write_into_the_project(
    suite: Project, workers: list[str]
) -> None:
    run = suite.update(*workers, VALUE="2")
    assert (run.status, suite.files()) == (0, {k: v.replace("1", "2") for k, v in FILES.items()})


@pytest.mark.parametrize("workers", ["copied before"], indirect=True)
def test_workers_in_copies_leave_their_candidates_with_the_project(
    suite: Project, workers: list[str]
) -> None:
    before = suite.files()
    run = suite.run(*workers, VALUE="2")
    assert (run.status, suite.files()) == (1, before)
    artifacts = suite.root / "fxregion-artifacts"
    report = json.loads((artifacts / "fxregion.json").read_text())
    candidates = [each["candidate"] for test in report["tests"] for each in test["candidates"]]
    assert len(candidates) == 6
    for name in candidates:
        assert (artifacts / name).read_text().endswith(" 2\n")
        assert "\n+" in (artifacts / name.replace(".fx.txt", ".diff")).read_text()


@pytest.mark.parametrize("workers", ["copied before"], indirect=True)
def test_what_cannot_be_written_into_the_project_fails_the_run(
    suite: Project, workers: list[str]
) -> None:
    shutil.rmtree(suite.snapshots)
    suite.write("snapshots", "a file where the folder should be")
    run = suite.update(*workers, VALUE="2")
    assert run.status == 1
    assert "6 passed" in run.output
    assert "cannot write test_one/test_one[a]@cpu.fx.txt for tests/test_one.py::" in run.output


def test_shards_of_a_suite_are_merged_and_reviewed_as_one(suite: Project) -> None:
    for number, name in enumerate(("one", "two")):
        suite.run(f"tests/test_{name}.py", f"--fxregion-artifacts=shards/{number}", CI="true")
    command = [sys.executable, "-m", "pytest_fxregion"]

    def called(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments],
            cwd=suite.root,
            env={"PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    merged = called("merge", "shards/0/fxregion.json", "shards/1/fxregion.json", "-o", "all")
    assert merged == "6 tests, 6 candidates in all/fxregion.json\n"
    assert called("review", "all", "--accept-all").endswith("6 accepted, 0 left\n")
    run = suite.update()
    assert (run.status, suite.files()) == (0, FILES)
