"""What a run leaves for the CI system that it runs in, serial and with workers."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plugin.pytest_process import Finished, Project
from tests.unit.review.schema import validate

OPTIONS = (
    *("-p", "xdist.plugin", "-p", "syrupy", "-p", "pytest_fxregion.plugin"),
    *("--fxregion", "--fxregion-device=cpu"),
)
TESTS = {
    "python/tests/test_docs.py": """\
        import pytest
        from pytest_fxregion.snapshots.document import Document, Section

        def test_changed(fxregion_snapshot):
            value = Document("", (Section("joint", "as it is"),))
            assert value == fxregion_snapshot

        def test_equal(fxregion_snapshot):
            value = Document("", (Section("joint", "as it was"),))
            assert value == fxregion_snapshot

        def test_raises(fxregion_snapshot):
            raise RuntimeError("of its own")

        def test_of_another_kind():
            assert False
        """,
    "python/pytest.ini": "[pytest]\n",
}
HELD = "# fxregion snapshot 1 | torch 0 | cpu\n\n# ==== joint ====\nas it was\n"


@pytest.fixture(params=[(), ("-n2",)], ids=["serial", "xdist"])
def ran(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Project, Finished]:
    project = Project(tmp_path)
    project.write(TESTS)
    for name in ("changed", "equal", "equal-old"):
        project.write({f"python/snapshots/test_docs/test_{name}@cpu.fx.txt": HELD})
    run = project.run(
        *OPTIONS,
        *request.param,
        "--junitxml=junit.xml",
        "--fxregion-codequality=codequality.json",
        cwd=tmp_path / "python",
        env={
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "CI_PROJECT_DIR": str(tmp_path),
        },
    )
    return project, run


def test_every_system_has_what_it_reads(ran: tuple[Project, Finished]) -> None:
    project, run = ran
    folder = project.folder
    command = (
        "pytest tests/test_docs.py::test_changed --fxregion --fxregion-device=cpu --snapshot-update"
    )
    words = "snapshots/test_docs/test_changed@cpu.fx.txt differs from what was compiled on cpu:"
    assert run.code == 1

    annotations = [line for line in run.lines if line.startswith("::")]
    assert annotations == [
        "::error file=python/tests/test_docs.py,line=6,"
        "title=fxregion%3A tests/test_docs.py%3A%3Atest_changed::"
        f"the text of joint differs%0A{words.removesuffix(':')}%0A{command}",
        "::error file=python/tests/test_docs.py,line=13,"
        "title=fxregion%3A tests/test_docs.py%3A%3Atest_raises::RuntimeError: of its own",
    ]

    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### fxregion on cpu, torch ")
    assert "\n2 failed, 1 passed\n" in summary
    assert words in summary
    assert "test_of_another_kind" not in summary
    assert "unused (not used by tests/test_docs.py::test_equal, which passed): " in summary

    entries = json.loads((folder / "python/codequality.json").read_text(encoding="utf-8"))
    places = [(e["location"]["path"], e["location"]["lines"]["begin"]) for e in entries]
    assert places == [("python/tests/test_docs.py", 6), ("python/tests/test_docs.py", 13)]

    tests = ElementTree.parse(folder / "python/junit.xml").iter("testcase")
    failed = {test.attrib["name"]: test.find("failure") for test in tests}
    changed = failed["test_changed"]
    assert changed is not None
    assert (changed.text or "").splitlines()[1] == words
    assert (changed.text or "").splitlines()[-1] == command
    assert failed["test_equal"] is None

    report = json.loads((folder / "python/fxregion-artifacts/fxregion.json").read_text())
    validate(report)
    assert {test["nodeid"]: test["failure"] for test in report["tests"]} == {
        "tests/test_docs.py::test_changed": {
            "file": "tests/test_docs.py",
            "line": 6,
            "text": [words, "the text of joint differs"],
            "command": command,
        },
        "tests/test_docs.py::test_equal": None,
        "tests/test_docs.py::test_raises": {
            "file": "tests/test_docs.py",
            "line": 13,
            "text": ["RuntimeError: of its own"],
            "command": None,
        },
    }


def test_elsewhere_nothing_is_said(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(TESTS)
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = project.run(*OPTIONS, cwd=tmp_path / "python", env=env)
    assert run.code == 1
    assert [line for line in run.lines if line.startswith("::")] == []
    assert not list(tmp_path.rglob("*.md"))


def test_a_summary_that_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(TESTS)
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GITHUB_STEP_SUMMARY": str(tmp_path)}
    run = project.run(
        *OPTIONS, "--fxregion-codequality=pytest.ini/x.json", cwd=tmp_path / "python", env=env
    )
    assert run.code == 1
    run.line("could not write the job's summary: ")
    run.line("could not write ", "pytest.ini/x.json: ")


FUNCTION = {
    "tests/test_runs.py": """\
        import torch

        def block(x):
            with torch.fx.traceback.annotate({"compile_with_inductor": 0}):
                return x.sin() + 1

        def test_runs(fxregion):
            x = fxregion.randn(4, requires_grad=True)
            fxregion(block, x).check()
            fxregion(block, x, name="again").check()
        """,
}


def test_figures_are_properties_in_junit_from_a_worker_too(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(FUNCTION)
    run = project.run(
        *("--fxregion", "--fxregion-device=virtual", "--snapshot-update", "-n1"),
        "--fxregion-allow-ci-update",
        "--junitxml=junit.xml",
        env={"CI": "true"},
    )
    assert run.code == 0, run.text
    report = json.loads((tmp_path / "fxregion-artifacts/fxregion.json").read_text())
    validate(report)
    assert [region["stage"] for region in report["tests"][0]["figures"][1]["regions"]] == [
        "forward",
        "backward",
    ]
    run.line("tests/test_runs.py::test_runs (again)", "1/1")  # the table is as without the file
    found = {
        element.attrib["name"]: element.attrib["value"]
        for element in ElementTree.parse(tmp_path / "junit.xml").iter("property")
    }
    assert {name.rpartition(".")[0] for name in found} == {"fxregion.0", "fxregion.again"}
    assert found["fxregion.0.regions_forward"] == found["fxregion.again.regions_forward"] == "1"
    assert found["fxregion.0.device"] == "cuda:0, virtual h100 (no GPU)"
