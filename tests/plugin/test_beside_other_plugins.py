"""Other plugins in the same run: each still does what it is for, and so do we."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

# One compiled test and one that fails on its first attempt, as cheap as can be: on the CPU, nothing
# annotated, so that nothing is compiled but the graphs are.
TESTS = """
from pathlib import Path

def test_graph(fxregion):
    run = fxregion(lambda x: x.sin(), fxregion.randn(3))
    run.check()

def test_at_the_second_attempt(fxregion):
    x = fxregion.randn(3)
    run = fxregion(lambda x: x.cos(), x)
    tried = Path("tried")
    first = not tried.exists()
    tried.touch()
    run.check()
    assert not first

def test_plain():
    pass
"""
OPTIONS = ("--fxregion", "--fxregion-device=cpu")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write({"tests/test_one.py": TESTS, "tried": ""})
    done = made.run(*OPTIONS, "--snapshot-update")
    assert done.code == 0, done.text
    assert len(made.snapshots()) == 2
    return made


def test_one_run_beside_all_of_them(project: Project) -> None:
    """Shuffled, timed, measured, repeated and retried, on two workers: everything is found."""
    (project.folder / "tried").unlink()
    done = project.run(
        *OPTIONS,
        *("-n", "2", "-p", "randomly", "--randomly-seed=3", "--timeout=120", "--reruns=1"),
        *("--cov=tests", "--cov-report=term", "--count=2"),
    )
    assert done.code == 0, done.text
    assert "6 passed" in done.lines[-1]
    assert "1 rerun" in done.lines[-1]
    done.line("tests/test_one.py", "100%")


def test_a_test_that_passes_in_the_end_is_recorded(project: Project) -> None:
    before = project.snapshots()
    for file in (project.folder / "snapshots").rglob("*.txt"):
        file.unlink()
    (project.folder / "tried").unlink()
    done = project.run(*OPTIONS, "--snapshot-update", "--reruns=1")
    assert done.code == 0, done.text
    assert project.snapshots() == before


PARTS = """
def test_parts(fxregion, subtests):
    for n in (3, 4):
        with subtests.test(n=n):
            fxregion(lambda x: x.sin(), fxregion.randn(n), name=f"n{n}").check()
"""


@pytest.mark.skipif(
    int(pytest.__version__.split(".")[0]) < 9, reason="pytest has subtests from version 9 on"
)
def test_a_run_of_a_subtest_has_one_row_and_one_property(project: Project) -> None:
    project.write({"tests/test_parts.py": PARTS})
    arguments = (*OPTIONS, "tests/test_parts.py", "--junitxml=junit.xml")
    assert project.run(*arguments, "--snapshot-update").code == 0
    done = project.run(*arguments)
    assert done.code == 0, done.text
    rows = [line for line in done.lines if line.startswith("tests/test_parts.py::test_parts (")]
    assert [row.split()[1] for row in rows] == ["(n3)", "(n4)"]
    junit = (project.folder / "junit.xml").read_text()
    assert junit.count('name="fxregion.n3.nodes"') == junit.count('name="fxregion.n4.nodes"') == 1


def test_a_second_attempt_has_one_row(project: Project) -> None:
    (project.folder / "tried").unlink()
    done = project.run(*OPTIONS, "--reruns=1")
    assert done.code == 0, done.text
    assert sum(line.startswith("tests/test_one.py::test_at_the") for line in done.lines) == 1


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_a_test_that_takes_too_long_loses_nothing(project: Project, method: str) -> None:
    before = project.snapshots()
    project.write(
        {
            "tests/test_slow.py": """
                import time
                import pytest

                def test_quick(fxregion):  # what takes time at first is done here
                    fxregion(lambda x: x.exp(), fxregion.randn(3))

                @pytest.mark.timeout(3)
                def test_slow(fxregion):
                    run = fxregion(lambda x: x.exp(), fxregion.randn(3))
                    run.check()
                    time.sleep(600)
            """
        }
    )
    slow = ("tests/test_slow.py", f"--timeout-method={method}")
    done = project.run(*OPTIONS, "--snapshot-update", *slow)
    assert done.code == 1, done.text
    assert "Timeout" in done.text
    assert project.snapshots() == before


def test_collecting_says_what_it_says_without_us(project: Project) -> None:
    ours = project.run("--collect-only", "-q", "--fxregion", "--fxregion-device=cpu")
    skipping = project.run("--collect-only", "-q")
    assert ours.lines[:3] == [
        "tests/test_one.py::test_graph",
        "tests/test_one.py::test_at_the_second_attempt",
        "tests/test_one.py::test_plain",
    ]
    # Without --fxregion a module is not imported; its tests have the same ids all the same.
    assert skipping.lines[:3] == ours.lines[:3]


def test_plain_syrupy_snapshots_live_in_the_same_project(project: Project) -> None:
    project.write(
        {
            "tests/test_theirs.py": """
                def test_theirs(snapshot):
                    assert {"a": 1} == snapshot
            """
        }
    )
    done = project.run(*OPTIONS, "--snapshot-update")
    assert done.code == 0, done.text
    theirs = project.folder / "tests" / "__snapshots__" / "test_theirs.ambr"
    assert theirs.exists()
    done = project.run(*OPTIONS)
    assert done.code == 0, done.text
    assert "3 snapshots passed" in done.text
    assert len(project.snapshots()) == 2


def test_repetitions_of_a_test_have_the_snapshots_of_the_test(project: Project) -> None:
    """Whatever its own id is: an empty one, or one that looks like a repetition's."""
    ids = ("", "-1", "1-2", "a", "]", "[x]")
    project.write(
        {
            "tests/test_repeated.py": f"""
            import pytest

            @pytest.mark.parametrize("name", {ids!r})
            def test_ids(fxregion, name):
                fxregion(lambda x: x.sin(), fxregion.randn(3)).check()
            """
        }
    )
    arguments = (*OPTIONS, "tests/test_repeated.py")
    assert project.run(*arguments, "--snapshot-update").code == 0
    done = project.run(*arguments, "--count=2")
    assert done.code == 0, done.text
    assert "12 passed" in done.lines[-1]
