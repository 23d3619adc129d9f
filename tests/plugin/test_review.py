"""What a run leaves for review, and the way from a failure to an accepted snapshot."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pytest_fxregion.snapshots.document import Document, Section, write_document
from tests.plugin.pytest_process import Finished, Project

OPTIONS = (
    *("-p", "xdist.plugin", "-p", "syrupy", "-p", "pytest_fxregion.plugin"),
    *("--fxregion", "--fxregion-device=cpu"),
)

TESTS = """\
    import os
    import pytest
    from pytest_fxregion.snapshots.document import Document, Section

    TEXT = '''\\
    class GraphModule(torch.nn.Module):
        def forward(self, x: "f32[4][1]cpu"):
            {op}: "f32[4][1]cpu" = torch.ops.aten.{op}.default(x);  x = None
            return ({op},)
    '''

    def document(op):
        return Document("", (Section("joint", TEXT.format(op=op)),))

    OP = os.environ.get("OP", "sin")

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_op(fxregion_snapshot, name):
        assert document(OP) == fxregion_snapshot

    def test_other():
        pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.folder.mkdir()
    made.write({"pytest.ini": "[pytest]\n", "tests/test_ops.py": TESTS})
    return made


def _run(project: Project, *arguments: str, cwd: Path | None = None, **env: str) -> Finished:
    # Only the plugins that matter here: others take longer to load than a run.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "160", **env}
    done = project.run(*OPTIONS, *arguments, cwd=cwd, env=environment)
    assert "INTERNALERROR" not in done.text, done.text
    return done


def _hold(project: Project, *names: str) -> None:
    """Put snapshots of what tests compare by default into the project."""
    text = dedent(TESTS.split("'''")[1].removeprefix("\\\n")).format(op="sin")
    held = write_document(Document("torch 1 | cpu", (Section("joint", text),)))
    folder = "snapshots/test_ops/"
    project.write({f"{folder}test_op[{name}]@cpu.fx.txt": held for name in names})


def _review(project: Project, *arguments: str) -> Finished:
    return project.run("review", *arguments, module="pytest_fxregion")


def _report(project: Project) -> dict[str, Any]:
    value = json.loads((project.folder / "fxregion-artifacts/fxregion.json").read_text())
    assert isinstance(value, dict)
    return value


def _candidates(project: Project) -> dict[str, list[str]]:
    """Return of each test in the report the snapshots that it has candidates for."""
    return {
        test["nodeid"].partition("::")[2]: [each["snapshot"] for each in test["candidates"]]
        for test in _report(project)["tests"]
    }


def _files(project: Project) -> list[str]:
    root = project.folder / "fxregion-artifacts"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_git_ignores_the_artifacts_but_not_what_is_in_a_folder_of_the_users(
    project: Project,
) -> None:
    git = ["git", "-C", str(project.folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)

    def untracked() -> list[str]:
        listing = [*git, "ls-files", "--others", "--exclude-standard"]
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()

    _run(project, OP="cos")
    assert not any("fxregion-artifacts" in name for name in untracked())
    project.write({"mine/kept.txt": ""})
    _run(project, "--fxregion-artifacts=mine", OP="cos")
    assert "mine/kept.txt" in untracked()
    assert "mine/fxregion.json" in untracked()


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["serial", "xdist"])
def test_a_failing_run_leaves_candidates_and_a_report(
    project: Project, workers: tuple[str, ...]
) -> None:
    _hold(project, "a")
    run = _run(project, *workers, OP="cos")
    assert run.line("review") == "2 candidates to review: python -m pytest_fxregion review"
    changed, new = "test_ops/test_op[a]@cpu", "test_ops/test_op[b]@cpu"
    assert _files(project) == [
        ".gitignore",
        "fxregion.json",
        f"snapshots/{changed}.diff",
        f"snapshots/{changed}.fx.txt",
        f"snapshots/{new}.fx.txt",
    ]
    report = _report(project)
    digest = report["tests"][0]["candidates"][0].pop("compared_sha256")
    assert len(digest) == 64
    failures = [test.pop("failure")["text"][0] for test in report["tests"]]
    assert failures == [
        f"snapshots/{changed}.fx.txt differs from what was compiled on cpu:",
        f"tests/test_ops.py::test_op[b] has no snapshot yet: snapshots/{new}.fx.txt does not exist",
    ]
    assert report == {
        "format": "fxregion",
        "version": 1,
        "torch": report["torch"],
        "device": "cpu",
        "tests": [
            {
                "nodeid": "tests/test_ops.py::test_op[a]",
                "outcome": "failed",
                "earlier": False,
                "figures": [],
                "candidates": [
                    {
                        "snapshot": f"snapshots/{changed}.fx.txt",
                        "candidate": f"snapshots/{changed}.fx.txt",
                        "compared_with": f"snapshots/{changed}.fx.txt",
                        "variant": "cpu",
                        "kind": "changed",
                        "summary": ["`cos` in joint: aten.sin.default → aten.cos.default"],
                    }
                ],
            },
            {
                "nodeid": "tests/test_ops.py::test_op[b]",
                "outcome": "failed",
                "earlier": False,
                "figures": [],
                "candidates": [
                    {
                        "snapshot": f"snapshots/{new}.fx.txt",
                        "candidate": f"snapshots/{new}.fx.txt",
                        "compared_with": None,
                        "compared_sha256": None,
                        "variant": "cpu",
                        "kind": "new",
                        "summary": [
                            "no snapshot yet; the new one holds",
                            "  joint (1 operation)",
                        ],
                    }
                ],
            },
        ],
    }


def test_from_a_failure_to_an_accepted_snapshot(project: Project) -> None:
    _hold(project, "a", "b")
    assert _run(project, OP="cos").code == 1
    assert _review(project).code == 2  # nobody to ask
    assert _review(project, "--list").code == 1
    assert _review(project, "--accept-all").code == 0
    run = _run(project, OP="cos")
    assert run.code == 0
    removed = [line for line in run.lines if "candidate removed, as it was accepted" in line]
    assert len(removed) == 2
    assert _files(project) == [".gitignore", "fxregion.json"]
    assert _candidates(project) == {"test_op[a]": [], "test_op[b]": []}


def test_what_ci_found_is_accepted_from_its_artifacts(project: Project, tmp_path: Path) -> None:
    _hold(project, "a", "b")
    clone = Project(tmp_path / "clone")
    shutil.copytree(project.folder, clone.folder)
    run = _run(clone, OP="cos", CI="true")
    assert run.code == 1
    downloaded = tmp_path / "downloaded"
    (clone.folder / "fxregion-artifacts").rename(downloaded)
    shutil.rmtree(clone.folder)
    assert _review(project, str(downloaded), "--accept-all").code == 0
    assert _run(project, OP="cos").code == 0


def test_a_passing_run_leaves_nothing(project: Project) -> None:
    _hold(project, "a", "b")
    assert _run(project).code == 0
    assert not (project.folder / "fxregion-artifacts").exists()


def test_under_ci_a_passing_run_leaves_a_report(project: Project) -> None:
    _hold(project, "a", "b")
    assert _run(project, CI="true").code == 0
    assert [test["outcome"] for test in _report(project)["tests"]] == ["passed", "passed"]


def test_candidates_of_tests_that_did_not_run_stay(project: Project) -> None:
    _hold(project, "a", "b")
    _run(project, OP="cos")
    run = _run(project, "tests/test_ops.py::test_op[a]")
    a, b = (f"snapshots/test_ops/test_op[{name}]@cpu.fx.txt" for name in "ab")
    assert run.line("candidate removed").endswith(f"as its test passes now: fxregion-artifacts/{a}")
    assert run.line("to review").startswith("1 candidate to review")
    assert _candidates(project) == {"test_op[a]": [], "test_op[b]": [b]}
    assert [test["earlier"] for test in _report(project)["tests"]] == [False, True]
    assert not any("[a]" in name for name in _files(project))


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["serial", "xdist"])
def test_candidates_of_a_test_that_is_gone_go(project: Project, workers: tuple[str, ...]) -> None:
    """Nobody could settle them: accepted, they would be snapshots without a test."""
    _run(project, *workers)
    project.write({"tests/test_ops.py": TESTS.replace('["a", "b"]', '["a", "c"]')})
    run = _run(project, *workers, "tests/test_ops.py::test_op[c]")  # says nothing of the others
    assert "candidate removed" not in run.text
    run = _run(project, *workers)
    gone = "fxregion-artifacts/snapshots/test_ops/test_op[b]@cpu.fx.txt"
    assert run.line("candidate removed") == f"candidate removed, as its test is gone: {gone}"
    assert [name for name, found in _candidates(project).items() if found] == [
        "test_op[a]",
        "test_op[c]",
    ]
    (project.folder / "tests/test_ops.py").rename(project.folder / "tests/test_moved.py")
    assert _run(project, *workers).text.count("as its test is gone: ") == 2


def test_candidates_of_another_project_stay(project: Project) -> None:
    """One folder of artifacts for all packages of a repository."""
    _run(project)
    beside = Project(project.folder.parent / "beside")
    beside.write({"pytest.ini": "[pytest]\n", "checks/test_others.py": TESTS})
    _run(beside, "--fxregion-artifacts=../project/fxregion-artifacts")
    assert sum(len(test["candidates"]) for test in _report(project)["tests"]) == 4
    assert "candidate removed" not in _run(project).text


def test_candidates_of_another_variant_stay(project: Project) -> None:
    _hold(project, "a", "b")
    _run(project, "--fxregion-record=mine", OP="cos")
    before = _candidates(project)
    assert before["test_op[a]"] == ["snapshots/test_ops/test_op[a]@mine.fx.txt"]
    assert _run(project).code == 0
    assert _candidates(project) == before
    assert any("[a]@mine.fx.txt" in name for name in _files(project))


def test_a_failure_elsewhere_keeps_the_candidate(project: Project) -> None:
    _hold(project, "a", "b")
    _run(project, OP="cos")
    before = _candidates(project)
    broken = TESTS.replace("assert document", "assert 0; assert document")
    project.write({"tests/test_ops.py": broken})
    _run(project)
    assert _candidates(project) == before


def test_a_later_value_takes_the_place_of_an_earlier_one(project: Project) -> None:
    _hold(project, "a", "b")
    _run(project, OP="cos")
    _run(project, OP="exp")
    candidate = _report(project)["tests"][0]["candidates"]
    assert [each["summary"] for each in candidate] == [
        ["`exp` in joint: aten.sin.default → aten.exp.default"]
    ]
    _review(project, "--accept-all")
    assert _run(project, OP="exp").code == 0


def test_what_was_asked_to_differ_is_no_candidate(project: Project) -> None:
    project.write(
        {
            "tests/test_ops.py": TESTS
            + """
    def test_unequal(fxregion_snapshot):
        assert document("exp") != fxregion_snapshot
        assert 0, "for another reason"

    def test_caught(fxregion_snapshot):
        with pytest.raises(AssertionError):
            assert document("exp") == fxregion_snapshot
        assert 0, "for another reason"

    @pytest.mark.xfail(strict=True)
    def test_expected(fxregion_snapshot):
        assert document("exp") == fxregion_snapshot
    """
        }
    )
    _run(project, OP="sin")
    found = _candidates(project)
    assert (found["test_unequal"], found["test_caught"], found["test_expected"]) == ([], [], [])
    assert len(found["test_op[a]"]) == 1


OUTCOMES = """\
    import json, os
    import pytest

    FIGURES = {
        "name": None, "graphs": 1, "regions_forward": 1, "regions_backward": 0, "nodes": 3,
        "saved_bytes": 8, "gradient_accumulations": 0, "worst_of_allowed": float("nan"),
        "worst_name": "out", "seconds": 0.5, "spilling": [],
    }

    def test_passed(fxregion_snapshot, record_property):
        record_property("fxregion", json.dumps(FIGURES))

    def test_failed(fxregion_snapshot):
        assert 0

    @pytest.fixture
    def broken():
        assert 0

    def test_error(broken, fxregion_snapshot):
        pass

    def test_skipped(fxregion_snapshot):
        pytest.skip("today")

    @pytest.mark.xfail
    def test_xfailed(fxregion_snapshot):
        assert 0

    @pytest.mark.xfail(strict=False)
    def test_xpassed(fxregion_snapshot):
        pass

    def test_crashed(fxregion_snapshot):
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        assert 0
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["serial", "xdist"])
def test_every_outcome_is_in_the_report(project: Project, workers: tuple[str, ...]) -> None:
    project.write({"tests/test_ops.py": OUTCOMES})
    _run(project, *workers)
    tests = {test["nodeid"].partition("::test_")[2]: test for test in _report(project)["tests"]}
    assert {name: test["outcome"] for name, test in tests.items()} == {
        **{name: name for name in tests if name != "crashed"},
        "crashed": "failed",
    }
    assert len(tests) == 7
    assert tests["passed"]["figures"][0]["worst_of_allowed"] == "nan"


def test_a_test_that_is_run_again_and_passes_leaves_no_candidate(project: Project) -> None:
    project.write(
        {
            "conftest.py": """\
                from _pytest.runner import runtestprotocol

                def pytest_runtest_protocol(item, nextitem):
                    for attempt in ("1", "2"):
                        item.config.stash["attempt"] = attempt
                        runtestprotocol(item, nextitem=nextitem)
                    return True
            """,
            "tests/test_ops.py": TESTS.replace(
                "assert document(OP)",
                'assert document(request.config.stash["attempt"] == "1" and OP or "sin")',
            ).replace("(fxregion_snapshot, name)", "(request, fxregion_snapshot, name)"),
        }
    )
    _hold(project, "a", "b")
    assert "candidate" not in _run(project, OP="cos").text
    assert not any("test_op" in name for name in _files(project))


def test_two_runs_at_once_keep_the_candidates_of_both(project: Project) -> None:
    """One run has the report locked, as this test does here, while the other comes to its end."""
    _run(project, "tests/test_ops.py::test_op[b]")
    folder = project.folder / "fxregion-artifacts"
    others = (folder / "fxregion.json").read_text()
    (folder / "fxregion.json").unlink()
    lock = os.open(folder, os.O_RDONLY)
    with ThreadPoolExecutor() as runs:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run = runs.submit(_run, project, "tests/test_ops.py::test_op[a]")
            while not list(folder.rglob("*op?a?@cpu.fx.txt")):
                assert not run.done()
                time.sleep(0.05)
            time.sleep(0.5)
            assert not run.done()
            (folder / "fxregion.json").write_text(others)
        finally:
            os.close(lock)
        assert run.result().code == 1
    assert [len(found) for found in _candidates(project).values()] == [1, 1]


def test_a_damaged_report_is_said_and_replaced(project: Project) -> None:
    project.write({"fxregion-artifacts/fxregion.json": "{"})
    run = _run(project)
    assert "replaced fxregion-artifacts/fxregion.json, as it was no use: " in run.text
    assert len(_candidates(project)) == 2


def test_collecting_alone_leaves_the_report_as_it_is(project: Project) -> None:
    _run(project)
    before = _report(project)
    _run(project, "--collect-only")
    _run(project, "-k", "other")
    assert _report(project) == before


def test_artifacts_that_cannot_be_written_are_said(project: Project) -> None:
    project.write({"fxregion-artifacts": "a file where the folder should be"})
    run = _run(project)
    assert "could not keep the candidate for snapshots/test_ops/test_op[a]@cpu.fx.txt" in run.text
    assert "could not write fxregion-artifacts/fxregion.json" in run.text


@pytest.mark.parametrize("folder", ["{outside}", "../outside"])
def test_snapshots_outside_of_the_root_folder_are_not_for_review(
    project: Project, folder: str
) -> None:
    folder = folder.format(outside=project.folder.parent / "outside")
    run = _run(project, f"--fxregion-snapshot-dir={folder}")
    assert run.line("2 candidates, not for review").endswith(
        "the last line of each failure accepts it"
    )
    (first, *_) = _report(project)["tests"][0]["candidates"]
    assert Path(first["snapshot"]).is_absolute()


def test_the_command_fits_the_folder_that_it_is_typed_in(project: Project) -> None:
    run = _run(project, cwd=project.folder / "tests")
    assert run.line("to review").endswith(
        "python -m pytest_fxregion review ../fxregion-artifacts --root .."
    )


def test_graphs_do_not_reach_the_reports_of_others(project: Project) -> None:
    run = _run(project, "--junitxml=junit.xml")
    assert run.code == 1
    assert "fxregion-candidates" not in (project.folder / "junit.xml").read_text()
