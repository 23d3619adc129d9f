"""Tests with strange names have snapshots like all others; those that would share a file fail."""

from __future__ import annotations

import shlex

import pytest

from tests.plugin.snapshots.project import REPOSITORY, Project

IDS = ["a/b", "ab", "x::y", "\u00fc", "a b", "100%", "..", "t" * 300, "t" * 299 + "u", "\n"]

NAMES = f"""\
import shlex

import pytest
from values import doc

@pytest.mark.parametrize("k", range({len(IDS)}), ids={IDS!r})
def test_p(fxregion_snapshot, k):
    assert doc(f"{{k}}") == fxregion_snapshot
    assert doc(f"{{k}} named") == fxregion_snapshot(name="a/b")

class TestA:
    class TestB:
        def test_x(self, fxregion_snapshot):
            assert doc("nested") == fxregion_snapshot
            assert doc("second") == fxregion_snapshot
            assert doc("1") == fxregion_snapshot(name="1")
"""


def test_every_id_has_a_file_of_its_own(project: Project, xdist: bool) -> None:
    project.write("tests/test_names.py", NAMES)

    assert project.update(xdist=xdist).status == 0
    files = project.files()
    assert len(files) == 2 * len(IDS) + 3
    assert files["test_names/test_p[a%2Fb]@cpu"] == "0 1"
    assert files["test_names/test_p[ab]@cpu"] == "1 1"
    assert files["test_names/test_p[x%3A%3Ay]@cpu"] == "2 1"
    assert files["test_names/test_p[x%3A%3Ay]-a%2Fb@cpu"] == "2 named 1"
    assert files["test_names/TestA.TestB.test_x@cpu"] == "nested 1"
    assert files["test_names/TestA.TestB.test_x-1@cpu"] == "second 1"
    assert files["test_names/TestA.TestB.test_x-%31@cpu"] == "1 1"

    again = project.update(xdist=xdist)
    assert (again.status, project.files()) == (0, files)
    assert "removed" not in again.output
    assert "unused" not in project.run(xdist=xdist).output


def test_names_that_clash_fail_by_name(project: Project, xdist: bool) -> None:
    project.write(
        "tests/test_clash.py",
        "import pytest\nfrom values import doc\n\n"
        '@pytest.mark.parametrize("x", ["A", "a", "b"])\n'
        "def test_p(fxregion_snapshot, x):\n"
        "    assert doc(x) == fxregion_snapshot\n",
    )
    project.write(
        "tests/test_same.py",
        "from values import doc\n\ndef test_s(fxregion_snapshot):\n"
        "    assert doc('x') == fxregion_snapshot\n",
    )
    project.write(
        "test_same.py",
        "from values import doc\n\ndef test_s(fxregion_snapshot):\n"
        "    assert doc('y') == fxregion_snapshot\n",
    )
    project.write("pytest.ini", "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    run = project.update(xdist=xdist)

    assert "1 passed, 4 errors" in run.output
    assert (
        "the snapshots of tests/test_clash.py::test_p[A] and tests/test_clash.py::test_p[a] would "
        "have the same file name (names are compared without case, as some file systems do): "
        "rename one of the tests, or give its parameters other ids"
    ) in run.output
    assert (
        "the snapshots of test_same.py::test_s and tests/test_same.py::test_s would have the same "
        "file name (the folder of all tests is left out of it): rename one of the files"
    ) in run.output
    assert project.files() == {"test_clash/test_p[b]@cpu": "b 1"}


def test_a_file_that_is_left_out_is_not_overwritten(project: Project) -> None:
    def test(value: str, *, name: str = "test_s") -> str:
        return (
            f"from values import doc\n\ndef {name}(fxregion_snapshot):\n"
            f"    assert doc({value!r}) == fxregion_snapshot\n"
        )

    project.write("tests/a/test_same.py", test("x"))
    assert project.update().status == 0
    files = project.files()
    project.write("a/test_same.py", test("y"))
    run = project.update("a")

    assert "1 error" in run.output
    assert (
        "the snapshots of a/test_same.py::test_s and tests/a/test_same.py::test_s would have the "
        "same file name"
    ) in run.output
    assert project.files() == files

    project.write("a/test_same.py", test("y", name="test_other"))
    assert project.update("a").status == 0
    assert project.files() == {**files, "a/test_same/test_other@cpu": "y 1"}


def test_a_test_outside_of_the_root_folder_is_told_so(project: Project) -> None:
    project.write("inner/pytest.ini", "[pytest]\npythonpath = ..\n")
    project.write("test_out.py", "def test(fxregion_snapshot):\n    pass\n")
    run = project.run("--rootdir=inner", "-c", "inner/pytest.ini", "test_out.py")
    assert "lies outside the root folder" in run.output


@pytest.mark.parametrize("folder", ["", "tests"])
def test_the_command_works_from_where_pytest_was_started(project: Project, folder: str) -> None:
    project.write(
        "tests/test_a.py",
        "from values import doc\n\ndef test(fxregion_snapshot):\n"
        "    assert doc('x') == fxregion_snapshot\n",
    )
    started = Project.__new__(Project)
    started.root = project.root / folder
    output = started.run("test_a.py" if folder else "tests/test_a.py").output
    command = next(line for line in output.splitlines() if line.startswith("pytest "))
    assert command.split()[1] == ("test_a.py::test" if folder else "tests/test_a.py::test")
    assert started.run(*command.split()[1:]).status == 0
    assert project.files() == {"test_a/test@cpu": "x 1"}


@pytest.mark.parametrize("xdist", [False, True])
def test_the_command_starts_pytest_as_it_was_started(project: Project, xdist: bool) -> None:
    """As a module it finds what is beside the tests, in the folder that it is started in."""
    project.write(
        "test_a.py",
        "from values import doc\n\ndef test(fxregion_snapshot):\n"
        "    assert doc('x') == fxregion_snapshot\n",
    )
    output, _ = project.start("test_a.py", xdist=xdist).communicate()
    assert "\npython -m pytest test_a.py::test --fxregion " in output


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        (("--rootdir=pack", "-c", "pytest.ini"), "-c pytest.ini --rootdir=pack"),
        (("-o", "fxregion_snapshot_dir=else where"), "-c pytest.ini"),
        ((), "-c pytest.ini"),
    ],
)
def test_the_command_is_of_the_same_project(
    project: Project, given: tuple[str, ...], repeated: str
) -> None:
    """Of several in one repository a run of one test would take the innermost."""
    project.write("pack/pyproject.toml", "[tool.pytest.ini_options]\n")
    project.write(
        "pack/test_a.py",
        "from values import doc\n\ndef test(fxregion_snapshot):\n"
        "    assert doc('x') == fxregion_snapshot\n",
    )
    output = project.run(*given, PYTHONPATH=f"{REPOSITORY}:{project.root}").output
    command = next(line for line in output.splitlines() if line.startswith("pytest "))
    assert f"test {repeated}" in command
    update = project.run(*shlex.split(command)[1:], PYTHONPATH=f"{REPOSITORY}:{project.root}")
    assert update.status == 0, update.output
    assert project.run(*given, PYTHONPATH=f"{REPOSITORY}:{project.root}").status == 0
