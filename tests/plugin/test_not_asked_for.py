"""Without ``--fxregion``: tests are skipped with the reason, and nothing heavy is imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

HEAVY = ("torch", "triton", "numpy", "pytest_fxregion.harness", "pytest_fxregion.snapshots.session")

# Every process writes at its end what it has imported.
CONFTEST = f"""
import json, os, sys
from pathlib import Path

def pytest_sessionfinish(session):
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    Path(session.config.rootpath, f"modules-{{os.getpid()}}.json").write_text(json.dumps(heavy))
"""

OURS = """
import pytest
import torch
from torch import nn

class Layer(nn.Module):
    pass

@pytest.mark.parametrize("n", [1, 2])
def test_one(fxregion, n):
    raise AssertionError

@pytest.mark.fxregion(gpu=True)
class TestMore:
    def test_two(self, fxregion_snapshot):
        raise AssertionError
"""

MIXED = """
def test_ours(fxregion):
    raise AssertionError

def test_theirs():
    pass
"""

THROUGH_A_FIXTURE = """
import pytest

@pytest.fixture
def run(fxregion):
    raise AssertionError

def test_indirect(run):
    raise AssertionError

@pytest.mark.usefixtures("fxregion")
def test_used():
    raise AssertionError
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write(
        {
            "pytest.ini": "[pytest]\naddopts = --strict-markers --strict-config\n",
            "conftest.py": CONFTEST,
            "tests/test_ours.py": OURS,
            "tests/test_mixed.py": MIXED,
            "tests/test_fixture.py": THROUGH_A_FIXTURE,
        }
    )
    return made


def imported(project: Project) -> list[list[str]]:
    """Return what each process of the last run had imported of the heavy modules."""
    files = list(project.folder.glob("modules-*.json"))
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize("options", [(), ("-n", "2"), ("-p", "no:xdist")], ids=" ".join)
def test_tests_are_skipped_with_the_reason_and_nothing_is_imported(
    project: Project, options: tuple[str, ...]
) -> None:
    done = project.run("-rs", *options, anew=True)
    assert done.code == 0, done.text
    assert "1 passed, 5 skipped" in done.lines[-1]
    reasons = [line for line in done.lines if line.startswith("SKIPPED")]
    assert reasons
    assert all(line.endswith("needs --fxregion") for line in reasons)
    assert "fxregion:" not in done.text  # no header
    assert "snapshot report" not in done.text  # syrupy has nothing to say
    processes = imported(project)
    assert len(processes) == (3 if "-n" in options else 1)
    assert processes == [[]] * len(processes)


def test_tests_can_be_selected_by_name(project: Project) -> None:
    done = project.run("-v", "-k", "two or theirs")
    assert done.code == 0, done.text
    done.line("tests/test_ours.py::TestMore::test_two", "SKIPPED")
    done.line("tests/test_mixed.py::test_theirs", "PASSED")
    assert "test_one" not in done.text


def test_a_test_named_by_id_is_found_with_its_parameters(project: Project) -> None:
    source = """
        import pytest

        @pytest.mark.parametrize("n", [1, 2])
        def test_one(fxregion, n):
            raise AssertionError
    """
    project.write({"tests/test_ours.py": source})
    done = project.run("-rs", "tests/test_ours.py::test_one[2]")
    assert done.code == 0, done.text
    assert "1 skipped" in done.lines[-1]


def test_another_fixture_of_the_same_name_is_not_run_either(project: Project) -> None:
    """A test that overrides our fixture still is one of ours."""
    project.write(
        {
            "tests/test_own.py": """
                import pytest

                @pytest.fixture
                def fxregion():
                    return 1

                def test_own(fxregion):
                    pass
            """
        }
    )
    assert "1 skipped" in project.run("tests/test_own.py").lines[-1]


def test_the_plugin_can_be_switched_off(project: Project) -> None:
    done = project.run("-p", "no:fxregion", "tests/test_mixed.py")
    assert "fixture 'fxregion' not found" in done.text


def test_marker_options_and_fixtures_are_documented(project: Project) -> None:
    assert "@pytest.mark.fxregion(device=None" in project.run("--markers").text
    text = project.run("--help").text
    assert "--fxregion-device=DEVICE" in text
    assert "fxregion_device (string)" in text
    assert "Compile functions with their annotated regions" in project.run("--fixtures").text


def test_a_snapshot_file_is_no_doctest(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "test_one.fx.txt").write_text(">>> 1 / 0\n", encoding="utf-8")
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n", encoding="utf-8")
    finished = project.run()
    assert finished.code == 0
    assert "1 passed" in finished.text
