"""What a person reads when a snapshot is missing or differs, and what CI may write."""

from __future__ import annotations

import pytest

from tests.plugin.snapshots.project import Project

GRAPH = '''\
from pytest_fxregion.snapshots.document import Document, Section
import os

TAG = os.environ.get("TAG", "PREFER_RECOMPUTE")

def test_block(fxregion_snapshot):
    text = f"""\\
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[4][1]cpu"):
        # ac_graph_id: 0 - {TAG}
        mm: "f32[4][1]cpu" = torch.ops.aten.mm.default(x, x);  x = None
        return (mm,)
"""
    assert Document("", (Section("joint", text),)) == fxregion_snapshot
'''

COMMAND = (
    "pytest tests/test_graph.py::test_block --fxregion --fxregion-device=cpu --snapshot-update"
)

EXPECTED = f"""\
tests/test_graph.py:14: assert Document("", (Section("joint", text),)) == fxregion_snapshot
snapshots/test_graph/test_block@cpu.fx.txt differs from what was compiled on cpu:
`mm` in joint: checkpoint tag PREFER_RECOMPUTE → MUST_SAVE

@@ -4,5 +4,5 @@ joint
 class GraphModule(torch.nn.Module):
     def forward(self, x: "f32[4][1]cpu"):
-        # ac_graph_id: 0 - PREFER_RECOMPUTE
+        # ac_graph_id: 0 - MUST_SAVE
         mm: "f32[4][1]cpu" = torch.ops.aten.mm.default(x, x);  x = None
         return (mm,)

To accept what was compiled now, run:
{COMMAND}
"""


@pytest.fixture
def suite(project: Project) -> Project:
    project.write("tests/test_graph.py", GRAPH)
    return project


def test_a_difference_is_said_in_words_then_in_lines_then_with_the_command(suite: Project) -> None:
    assert suite.update().status == 0
    assert EXPECTED in suite.run(TAG="MUST_SAVE").output


def test_a_line_of_the_summary_says_what_differs(suite: Project, xdist: bool) -> None:
    """Under CI pytest writes a failure's whole message there."""
    suite.update()
    summary = suite.run(xdist=xdist, TAG="MUST_SAVE", CI="1").output.partition("test summary")[2]
    assert (
        "FAILED tests/test_graph.py::test_block - `mm` in joint: checkpoint tag PREFER_RECOMPUTE"
        " → MUST_SAVE\n"
        "snapshots/test_graph/test_block@cpu.fx.txt differs from what was compiled on cpu\n"
        "="
    ) in summary


def test_the_text_is_the_same_from_a_worker(suite: Project) -> None:
    suite.update()
    assert EXPECTED in suite.run(xdist=True, TAG="MUST_SAVE").output


def test_a_large_difference_is_capped_and_whole_in_the_artifacts(project: Project) -> None:
    project.write(
        "tests/test_long.py",
        "from values import VALUE\n"
        "from pytest_fxregion.snapshots.document import Document, Section\n\n"
        "def test_long(fxregion_snapshot):\n"
        '    text = "\\n".join(f"{k} {VALUE}" for k in range(500))\n'
        '    assert Document("", (Section("kernels", text),)) == fxregion_snapshot\n',
    )
    project.update()
    output = project.run(VALUE="2").output
    whole = "fxregion-artifacts/snapshots/test_long/test_long@cpu.diff"
    assert f"... 923 more lines of this diff are left out; all of them in {whole}\n" in output
    assert (project.root / whole).read_text().count("\n+") == 500
    candidate = project.root / whole.replace(".diff", ".fx.txt")
    assert candidate.read_text().endswith("499 2\n")


def test_a_missing_snapshot_fails_with_the_command_that_records_it(suite: Project) -> None:
    run = suite.run()
    assert (
        "tests/test_graph.py::test_block has no snapshot yet: "
        "snapshots/test_graph/test_block@cpu.fx.txt does not exist\n"
        "\n"
        "To accept what was compiled now, run:\n"
        f"{COMMAND}\n"
    ) in run.output
    assert (run.status, suite.files()) == (1, {})


@pytest.mark.parametrize("option", ["--snapshot-update", "--snapshot-update-new-only"])
def test_ci_writes_nothing(suite: Project, option: str, xdist: bool) -> None:
    run = suite.run(option, xdist=xdist, CI="true")
    assert (run.status, suite.files()) == (1, {})
    assert "Under CI nothing is written unless --fxregion-allow-ci-update is given." in run.output


def test_ci_removes_nothing(suite: Project) -> None:
    suite.update()
    suite.write_snapshot("test_graph/test_gone@cpu", "x")
    before = suite.files()
    run = suite.update(CI="1")
    assert (run.status, suite.files()) == (1, before)


def test_ci_writes_when_asked_by_name(suite: Project, xdist: bool) -> None:
    run = suite.update("--fxregion-allow-ci-update", xdist=xdist, CI="true")
    assert (run.status, len(suite.files())) == (0, 1)


def test_unequal_is_no_failure(project: Project) -> None:
    project.write(
        "tests/test_ne.py",
        "from values import doc\n\n"
        "def test_ne(fxregion_snapshot):\n"
        '    assert doc("other") != fxregion_snapshot\n',
    )
    project.write_snapshot("test_ne/test_ne@cpu", "one 1")
    assert project.run().status == 0
    assert not (project.root / "fxregion-artifacts").exists()


def test_a_candidate_has_the_name_of_the_file_that_it_would_go_to(suite: Project) -> None:
    suite.update()
    variant = suite.snapshots / "test_graph/test_block@cpu.fx.txt"
    variant.rename(variant.with_name("test_block.fx.txt"))
    run = suite.run(TAG="MUST_SAVE")
    assert (
        "snapshots/test_graph/test_block.fx.txt differs from what was compiled on cpu" in run.output
    )
    kept = (suite.root / "fxregion-artifacts/snapshots").rglob("*.*")
    assert sorted(path.name for path in kept) == ["test_block@cpu.diff", "test_block@cpu.fx.txt"]


def test_artifacts_that_cannot_be_written_are_a_line_of_the_failure(suite: Project) -> None:
    suite.update()
    suite.write("fxregion-artifacts", "a file where the folder should be")
    output = suite.run(TAG="MUST_SAVE").output
    head, _, command = EXPECTED.rpartition("\n\nTo accept")
    assert head in output
    assert (
        "(could not keep the new value in the artifacts folder: [Errno 20] Not a directory"
        in output
    )
    assert f"\n\nTo accept{command}" in output
    assert "NotADirectoryError" not in output


def test_a_value_without_a_document_is_named(project: Project) -> None:
    project.write(
        "tests/test_type.py",
        "def test_type(fxregion_snapshot):\n    assert 3 == fxregion_snapshot\n",
    )
    assert "SnapshotError: a value of type int cannot be compared with a" in project.run().output
