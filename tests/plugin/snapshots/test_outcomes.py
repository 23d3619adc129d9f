"""Only a test that passed has its new values written and its unused files removed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.plugin.snapshots.project import Project, Run

OUTCOMES = """\
import os
import pytest
from values import VALUE, doc

BAD = VALUE == "2"

def test_passes(fxregion_snapshot):
    assert doc("passes") == fxregion_snapshot

def test_raises_first(fxregion_snapshot):
    if BAD:
        raise RuntimeError("before the comparison")
    assert doc("raises") == fxregion_snapshot

def test_fails_later(fxregion_snapshot):
    assert doc("fails") == fxregion_snapshot
    assert not BAD

def test_skips(fxregion_snapshot):
    assert doc("skips") == fxregion_snapshot
    if BAD:
        pytest.skip("later")

@pytest.mark.skipif(BAD, reason="not now")
def test_skipif(fxregion_snapshot):
    assert doc("skipif") == fxregion_snapshot

@pytest.mark.xfail(BAD, reason="known")
def test_xfail(fxregion_snapshot):
    assert doc("xfail") == fxregion_snapshot
    assert not BAD

@pytest.mark.xfail(BAD, reason="known", strict=False)
def test_xpass(fxregion_snapshot):
    assert doc("xpass") == fxregion_snapshot

@pytest.fixture
def breaks_after():
    yield
    assert not BAD

def test_teardown(fxregion_snapshot, breaks_after):
    assert doc("teardown") == fxregion_snapshot

@pytest.fixture
def breaks_before():
    assert not BAD

def test_setup(breaks_before, fxregion_snapshot):
    assert doc("setup") == fxregion_snapshot

def test_same_name_twice(fxregion_snapshot):
    assert doc("first") == fxregion_snapshot(name="x")
    assert doc("second" if BAD else "first") == fxregion_snapshot(name="x")

@pytest.mark.parametrize("x", [] if BAD else ["a"])
def test_parameters(fxregion_snapshot, x):
    assert doc("parameters") == fxregion_snapshot
"""

MODULE_SKIP = """\
import pytest
from values import VALUE, doc

if VALUE == "2":
    pytest.skip("the whole file", allow_module_level=True)

def test_module(fxregion_snapshot):
    assert doc("module") == fxregion_snapshot
"""

KEPT = {
    "test_outcomes/test_raises_first": "raises 1",
    "test_outcomes/test_fails_later": "fails 1",
    "test_outcomes/test_skips": "skips 1",
    "test_outcomes/test_skipif": "skipif 1",
    "test_outcomes/test_xfail": "xfail 1",
    "test_outcomes/test_xpass": "xpass 1",
    "test_outcomes/test_teardown": "teardown 1",
    "test_outcomes/test_setup": "setup 1",
    "test_outcomes/test_same_name_twice-x": "first 1",
    "test_outcomes/test_parameters[a]": "parameters 1",
    "test_skip/test_module": "module 1",
}


@pytest.fixture(
    scope="module", params=[pytest.param(False, id="serial"), pytest.param(True, id="xdist")]
)
def updated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, Run]:
    """One update of tests with all outcomes, each with its snapshot and one unused."""
    project = Project(tmp_path_factory.mktemp("outcomes"))
    project.write("tests/test_outcomes.py", OUTCOMES)
    project.write("tests/test_skip.py", MODULE_SKIP)
    for name, text in {"test_outcomes/test_passes": "passes 1", **KEPT}.items():
        project.write_snapshot(f"{name}@cpu", text)
        project.write_snapshot(f"{name.partition('-')[0]}-old@cpu", "unused")
    return project, project.update(xdist=request.param, VALUE="2")


def test_a_test_that_passed_is_written_and_cleaned(updated: tuple[Project, Run]) -> None:
    files = updated[0].files()
    assert files["test_outcomes/test_passes@cpu"] == "passes 2"
    assert "test_outcomes/test_passes-old@cpu" not in files


@pytest.mark.parametrize("name", KEPT)
def test_any_other_test_keeps_all_its_files(updated: tuple[Project, Run], name: str) -> None:
    files = updated[0].files()
    assert files[f"{name}@cpu"] == KEPT[name]
    assert files[f"{name.partition('-')[0]}-old@cpu"] == "unused"


def test_what_was_not_written_is_said(updated: tuple[Project, Run]) -> None:
    output = updated[1].output
    assert (
        "not written, because tests/test_outcomes.py::test_fails_later did not pass: "
        "snapshots/test_outcomes/test_fails_later@cpu.fx.txt"
    ) in output
    assert "1 snapshot updated" in output


def test_two_values_under_one_name_are_an_error(updated: tuple[Project, Run]) -> None:
    assert (
        "tests/test_outcomes.py::test_same_name_twice compares two different values with one "
        "snapshot, named 'x': give each its own name"
    ) in updated[1].output


STOPPED = """\
import os
import signal
import time
from values import VALUE, doc

def test_1_passes(fxregion_snapshot):
    assert doc("1") == fxregion_snapshot

def test_2_stops(fxregion_snapshot):
    assert doc("2") == fxregion_snapshot
    how = os.environ.get("STOP")
    if how == "crash":
        os._exit(3)
    if how == "interrupt":
        time.sleep(0.3)  # so that test_1's report is in
        os.kill(int(os.environ["MAIN"]), signal.SIGINT)
        time.sleep(1.5)
    assert how is None

def test_3_after(fxregion_snapshot):
    assert doc("3") == fxregion_snapshot
"""


@pytest.fixture
def stopped(project: Project) -> Project:
    project.write("conftest.py", "import os\n\nos.environ.setdefault('MAIN', str(os.getpid()))\n")
    project.write("tests/test_stop.py", STOPPED)
    for number in "123":
        name = {"1": "1_passes", "2": "2_stops", "3": "3_after"}[number]
        project.write_snapshot(f"test_stop/test_{name}@cpu", f"{number} 1")
        project.write_snapshot(f"test_stop/test_{name}-old@cpu", "unused")
    return project


@pytest.mark.parametrize("how", ["crash", "interrupt", "-x"])
def test_a_run_that_was_cut_off_loses_nothing(stopped: Project, how: str, xdist: bool) -> None:
    arguments = ["-x"] if how == "-x" else []
    options = (*arguments, "--max-worker-restart=0")
    run = stopped.update(*options, xdist=xdist, VALUE="2", STOP=how)

    if how != "crash" and not xdist:
        assert "not written, because tests/test_stop.py::test_2_stops did not pass" in run.output
        assert "1 snapshot failed. 1 snapshot updated." in run.output
    files = stopped.files()
    assert files["test_stop/test_2_stops@cpu"] == "2 1"
    assert files["test_stop/test_2_stops-old@cpu"] == "unused"
    assert files["test_stop/test_1_passes@cpu"] == "1 2"
    if not xdist:  # with two workers, the third test may have passed before the second stopped
        assert files["test_stop/test_3_after@cpu"] == "3 1"
        assert files["test_stop/test_3_after-old@cpu"] == "unused"
    assert all(name.endswith("@cpu") for name in files)  # nothing half written is left


def test_a_first_test_that_raises_under_x_loses_nothing(project: Project, xdist: bool) -> None:
    """Stock syrupy removes every snapshot of the suite here."""
    project.write(
        "tests/test_first.py",
        "from values import VALUE, doc\n\n"
        "def test_1_raises(fxregion_snapshot):\n"
        "    if VALUE == '2':\n"
        "        raise RuntimeError\n"
        '    assert doc("1") == fxregion_snapshot\n\n'
        "def test_2_after(fxregion_snapshot):\n"
        '    assert doc("2") == fxregion_snapshot\n',
    )
    project.write("tests/test_other.py", (project.root / "tests/test_first.py").read_text())
    project.update()
    before = project.files()
    assert len(before) == 4
    # With two workers, the other file's first test is under way, too.
    options = ["--dist=loadfile"] if xdist else []
    assert project.update("-x", *options, xdist=xdist, VALUE="2").status in (1, 2)
    after = project.files()
    assert after.keys() == before.keys()
    # xdist 3.0 lets a worker finish what it has in hand: a test that passed may be written.
    raised = [name for name in before if not xdist or "raises" in name]
    assert [after[name] for name in raised] == [before[name] for name in raised]


def test_a_comparison_in_a_fixture_counts(project: Project, xdist: bool) -> None:
    project.write(
        "tests/test_fixture.py",
        "import pytest\nfrom values import doc\n\n"
        "@pytest.fixture\n"
        "def compared(fxregion_snapshot):\n"
        '    assert doc("before") == fxregion_snapshot(name="before")\n'
        "    yield\n"
        '    assert doc("after") == fxregion_snapshot(name="after")\n\n'
        "def test_fixture(compared):\n    pass\n",
    )
    assert project.update(xdist=xdist).status == 0
    written = {
        "test_fixture/test_fixture-before@cpu": "before 1",
        "test_fixture/test_fixture-after@cpu": "after 1",
    }
    assert project.files() == written
    assert (project.update(xdist=xdist).status, project.files()) == (0, written)


def test_a_test_that_passes_when_it_is_run_again_is_written(project: Project, xdist: bool) -> None:
    project.write(
        "conftest.py",
        "from _pytest.runner import runtestprotocol\n\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    runtestprotocol(item, log=False, nextitem=None)\n"
        "    runtestprotocol(item, nextitem=nextitem)\n"
        "    return True\n",
    )
    project.write(
        "tests/test_flaky.py",
        "from values import doc\n\nATTEMPTS = []\n\n"
        "def test_flaky(fxregion_snapshot):\n"
        "    ATTEMPTS.append(1)\n"
        '    assert doc(f"attempt {len(ATTEMPTS)}") == fxregion_snapshot\n'
        "    assert len(ATTEMPTS) == 2\n",
    )
    run = project.update(xdist=xdist)
    assert (run.status, project.files()) == (0, {"test_flaky/test_flaky@cpu": "attempt 2 1"})
    assert "not written" not in run.output


def test_two_runs_at_once_leave_whole_files(project: Project, xdist: bool) -> None:
    project.write(
        "tests/test_many.py",
        "import pytest\nfrom values import doc\n\n"
        '@pytest.mark.parametrize("x", range(40))\n'
        "def test_many(fxregion_snapshot, x):\n"
        '    assert doc(f"{x} " + "long " * 2000) == fxregion_snapshot\n',
    )
    for number in range(40):
        project.write_snapshot(f"test_many/test_many[{number}]-old@cpu", "unused")
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda value: project.update(xdist=xdist, VALUE=value), ("2", "3"))
    for run in runs:
        assert run.status == 0, run.output

    files = project.files()
    assert sorted(files) == sorted(f"test_many/test_many[{number}]@cpu" for number in range(40))
    assert all(text.endswith((" 2", " 3")) and len(text) > 10_000 for text in files.values())


@pytest.fixture
def two(project: Project) -> Project:
    project.write(
        "tests/test_io.py",
        "from values import doc\n\n"
        "def test_large(fxregion_snapshot):\n"
        '    assert doc("large " * 20000) == fxregion_snapshot\n\n'
        "def test_small(fxregion_snapshot):\n"
        '    assert doc("small") == fxregion_snapshot\n',
    )
    project.write_snapshot("test_io/test_large@cpu", "large 1")
    project.write_snapshot("test_io/test_small@cpu", "small 1")
    return project


def test_a_full_disk_leaves_the_old_file_and_fails_the_test(two: Project, xdist: bool) -> None:
    # A limit on the size of files, as far as the test is concerned, is a full disk.
    two.write(
        "conftest.py",
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n",
    )
    run = two.update("-p", "no:cacheprovider", xdist=xdist, VALUE="2")

    assert run.status == 1
    assert "cannot write the snapshots of tests/test_io.py::test_large" in run.output
    assert two.files() == {"test_io/test_large@cpu": "large 1", "test_io/test_small@cpu": "small 2"}


def test_a_folder_that_cannot_be_written_fails_the_test(two: Project) -> None:
    two.write(
        "tests/test_file.py",
        "from values import doc\n\ndef test(fxregion_snapshot):\n"
        '    assert doc("x") == fxregion_snapshot\n',
    )
    two.write("snapshots/test_file", "a file where a folder should be")
    run = two.update("tests/test_file.py", "tests/test_io.py::test_small", VALUE="2")

    assert run.status == 1
    assert "cannot read or write snapshots/test_file/test@cpu.fx.txt: " in run.output
    assert two.files()["test_io/test_small@cpu"] == "small 2"
    assert two.files()["test_file"] == "a file where a folder should be"


def test_a_read_only_folder_fails_the_test(two: Project, xdist: bool) -> None:
    folder = two.snapshots / "test_io"
    folder.chmod(0o555)
    try:
        process = two.start("--snapshot-update", xdist=xdist, VALUE="2")  # root obeys in it, too
        output, _ = process.communicate()
    finally:
        folder.chmod(0o755)
    assert process.returncode == 1
    assert "cannot write the snapshots of tests/test_io.py::test_small" in output
    command = "python -m pytest tests/test_io.py::test_small --fxregion --fxregion-device=cpu"
    assert f"\n\nTo try again:\n{command} --snapshot-update\n" in output
    assert two.files() == {"test_io/test_large@cpu": "large 1", "test_io/test_small@cpu": "small 1"}
