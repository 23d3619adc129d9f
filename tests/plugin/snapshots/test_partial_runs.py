"""A run that sees a part of the suite takes nothing away from the rest of it."""

from __future__ import annotations

import pytest

from tests.plugin.snapshots.project import Project

TESTS = {
    "tests/test_a.py": """\
import pytest
from values import doc

def test_one(fxregion_snapshot):
    assert doc("one") == fxregion_snapshot

@pytest.mark.slow
def test_two(fxregion_snapshot):
    assert doc("two") == fxregion_snapshot
    assert doc("two named") == fxregion_snapshot(name="named")
""",
    "tests/deep/test_b.py": """\
import pytest
from values import doc

@pytest.mark.parametrize("x", ["a", "b"])
def test_three(fxregion_snapshot, x):
    assert doc(x) == fxregion_snapshot
""",
    "conftest.py": """\
import os
import pytest

collect_ignore = ["tests/deep"] if os.environ.get("DROP") == "file" else []

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    if os.environ.get("DROP") == "items":
        items[:] = [item for item in items if item.name == "test_one"]
""",
    # What pytest's own cache holds after test_one failed.
    ".pytest_cache/v/cache/lastfailed": '{"tests/test_a.py::test_one": true}',
}

ONE, TWO = "test_a/test_one", "test_a/test_two"
FILES = {
    f"{ONE}@cpu": "one 1",
    f"{ONE}-old@cpu": "no test asks for this",
    f"{TWO}@cpu": "two 1",
    f"{TWO}-named@cpu": "two named 1",
    f"{TWO}-old@cpu": "no test asks for this",
    "deep/test_b/test_three[a]@cpu": "a 1",
    "deep/test_b/test_three[b]@cpu": "b 1",
    "deep/test_b/test_three[a]-old@cpu": "no test asks for this",
    "deep/test_b/test_three[gone]@cpu": "its test is gone",
    "test_a/test_gone@cpu": "its test is gone",
    "test_gone/test_gone@cpu": "its file is gone",
}


@pytest.fixture
def suite(project: Project) -> Project:
    for path, text in TESTS.items():
        project.write(path, text)
    for path, text in FILES.items():
        project.write_snapshot(path, text)
    return project


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(["tests/test_a.py::test_one"], {}, id="node id"),
        pytest.param(["-k", "one"], {}, id="-k"),
        pytest.param(["-m", "not slow", "--ignore=tests/deep"], {}, id="-m and --ignore"),
        pytest.param(
            ["--deselect=tests/test_a.py::test_two", "tests/test_a.py"], {}, id="--deselect, a file"
        ),
        pytest.param(["--lf"], {}, id="--lf"),
        pytest.param([], {"DROP": "items"}, id="dropped by a conftest"),
    ],
)
def test_only_what_ran_is_written_and_removed(
    suite: Project, arguments: list[str], environment: dict[str, str], xdist: bool
) -> None:
    suite.update(*arguments, xdist=xdist, VALUE="2", **environment)

    left = dict(FILES)
    left[f"{ONE}@cpu"] = "one 2"
    del left[f"{ONE}-old@cpu"]
    assert suite.files() == left


def test_a_shard_of_files_keeps_to_itself(suite: Project, xdist: bool) -> None:
    suite.update("tests/deep/test_b.py", xdist=xdist)

    left = dict(FILES)
    del left["deep/test_b/test_three[a]-old@cpu"]
    assert suite.files() == left


def test_a_file_that_a_conftest_ignores_keeps_its_snapshots(suite: Project, xdist: bool) -> None:
    run = suite.update(xdist=xdist, DROP="file")

    gone = (f"{ONE}-old@cpu", f"{TWO}-old@cpu", "test_a/test_gone@cpu", "test_gone/test_gone@cpu")
    assert suite.files() == {path: text for path, text in FILES.items() if path not in gone}
    assert "removed (its test is gone): snapshots/test_gone/test_gone@cpu.fx.txt" in run.output


@pytest.mark.parametrize("option", ["--ignore=tests/deep", "--ignore-glob=*/deep"])
def test_a_run_that_ignores_files_is_not_complete(suite: Project, option: str) -> None:
    run = suite.update(option)

    gone = (f"{ONE}-old@cpu", f"{TWO}-old@cpu")
    assert suite.files() == {path: text for path, text in FILES.items() if path not in gone}
    assert f"as the run was not complete: {option.partition('=')[0]}" in run.output


def test_a_complete_run_names_what_is_unused_and_fails(suite: Project, xdist: bool) -> None:
    run = suite.run(xdist=xdist)

    for path in (
        "(not used by tests/test_a.py::test_one, which passed): snapshots/test_a/test_one-old@cpu",
        "(not used by tests/deep/test_b.py::test_three[a], which passed): "
        "snapshots/deep/test_b/test_three[a]-old@cpu",
        "(its test is gone): snapshots/test_a/test_gone@cpu",
        "(its test is gone): snapshots/test_gone/test_gone@cpu",
        "(its test is gone): snapshots/deep/test_b/test_three[gone]@cpu",
    ):
        assert f"unused {path}.fx.txt" in run.output
    assert run.status == 1
    assert suite.files() == FILES


def test_a_complete_run_removes_what_is_unused_when_asked(suite: Project, xdist: bool) -> None:
    run = suite.update(xdist=xdist)

    used = {path: text for path, text in FILES.items() if text.endswith(" 1")}
    assert (run.status, suite.files()) == (0, used)
    assert not (suite.snapshots / "test_gone").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "removed"),
    [
        (["--snapshot-warn-unused"], 0, False),
        (["--snapshot-update", "--snapshot-no-cleanup"], 1, False),
        (["--snapshot-update", "--snapshot-disable-unused"], 0, False),
        (["--snapshot-update", "tests"], 0, True),
        (["--snapshot-update", "tests", "--co"], 0, False),
    ],
)
def test_syrupy_options_keep_their_meaning(
    suite: Project, arguments: list[str], status: int, removed: bool
) -> None:
    run = suite.run(*arguments)

    assert run.status == status
    assert (f"{ONE}-old@cpu" not in suite.files()) == removed
    # A folder was named: what lies outside of it was not seen.
    assert "test_gone/test_gone@cpu" in suite.files()


def test_the_reason_of_a_run_that_is_not_complete_is_said_once(project: Project) -> None:
    for path, text in TESTS.items():
        project.write(path, text)
    run = project.run("--snapshot-update", "-k", "one")
    assert "as the run was not complete: -k\n" in run.output


def test_a_run_from_below_says_where_the_snapshots_are(project: Project) -> None:
    """Without an ini file the folder of the tests is pytest's root folder."""
    for path, text in TESTS.items():
        project.write(path, text)
    (project.root / ".git").mkdir()
    assert project.run("--snapshot-update").status == 0
    below = project.root / "tests" / "deep"
    arguments = (f"--rootdir={below}", str(below / "test_b.py"))
    run = project.run(*arguments, COLUMNS="400")
    assert (
        f"snapshots are looked for in pytest's root folder, {below} now; there are some in "
        f"{project.root}: start pytest with --rootdir={project.root}, or put an ini file there\n"
    ) in run.output
    assert "ini file" not in project.run("tests/deep/test_b.py").output
