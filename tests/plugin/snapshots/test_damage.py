"""Files that were damaged, edited or checked out otherwise are said to be so, and not rewritten."""

from __future__ import annotations

import pytest

from tests.plugin.snapshots.project import Project, Run

HEAD = b"# fxregion snapshot 1 | torch 0 | test\n\n# ==== text ====\n"

DAMAGED = {
    "conflict": (
        HEAD + b"<<<<<<< HEAD\na 1\n=======\nb 1\n>>>>>>> other\n",
        "test_damage/test_conflict@cpu.fx.txt:4: merge-conflict marker '<<<<<<< HEAD' in a "
        "snapshot; resolve the conflict, or record the snapshot anew",
    ),
    "empty": (b"", "snapshots/test_damage/test_empty@cpu.fx.txt: the snapshot file is empty"),
    "cut": (
        HEAD + b"cu",
        "test_damage/test_cut@cpu.fx.txt:4: the snapshot file ends in the middle of a line; it was "
        "cut off",
    ),
    "foreign": (b"hello\n", "snapshots/test_damage/test_foreign@cpu.fx.txt:1: not a snapshot"),
    "newer": (
        HEAD.replace(b"snapshot 1", b"snapshot 99"),
        "snapshots/test_damage/test_newer@cpu.fx.txt:1: the snapshot has format 99",
    ),
    "bytes": (
        HEAD + b"\xff\xfe\n",
        "snapshots/test_damage/test_bytes@cpu.fx.txt: not UTF-8 text",
    ),
    "edited": (
        HEAD + b"by hand\n",
        "snapshots/test_damage/test_edited@cpu.fx.txt differs from what was compiled on cpu:",
    ),
}

SOUND = {
    "crlf": (HEAD + b"crlf 1\n").replace(b"\n", b"\r\n"),
    "mark": b"\xef\xbb\xbf" + HEAD + b"mark 1\n",
    "provenance": HEAD.replace(b"torch 0 | test", b"torch 9 | elsewhere") + b"provenance 1\n",
    "spaces": HEAD + b"spaces 1   \n\n\n",
}


@pytest.fixture(scope="module", params=[False, True], ids=["serial", "xdist"])
def xdist(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def damaged(xdist: bool, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("damage"))
    project.write("pytest.ini", "[pytest]\npythonpath = .\ntestpaths = tests\n")
    tests = [
        f'def test_{name}(fxregion_snapshot):\n    assert doc("{name}") == fxregion_snapshot\n'
        for name in (*DAMAGED, *SOUND)
    ]
    project.write("tests/test_damage.py", "from values import doc\n\n" + "\n".join(tests))
    for name, content in {**{k: v for k, (v, _) in DAMAGED.items()}, **SOUND}.items():
        path = project.snapshots / "test_damage" / f"test_{name}@cpu.fx.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return project


@pytest.fixture(scope="module")
def compared(damaged: Project, xdist: bool) -> tuple[dict[str, bytes], Run]:
    return damaged.bytes(), damaged.run("-rA", xdist=xdist)


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_fails_the_test_with_what_it_is(
    compared: tuple[dict[str, bytes], Run], name: str
) -> None:
    _, run = compared
    assert f"FAILED tests/test_damage.py::test_{name}" in run.output
    assert DAMAGED[name][1] in run.output


@pytest.mark.parametrize("name", SOUND)
def test_another_spelling_of_the_same_is_no_damage(
    compared: tuple[dict[str, bytes], Run], name: str
) -> None:
    assert f"PASSED tests/test_damage.py::test_{name}" in compared[1].output


def test_comparing_changes_no_file(
    damaged: Project, compared: tuple[dict[str, bytes], Run]
) -> None:
    assert damaged.bytes() == compared[0]


def test_a_conflict_is_shown_as_no_diff(compared: tuple[dict[str, bytes], Run]) -> None:
    assert "\n-<<<<<<< HEAD" not in compared[1].output


def test_an_update_mends_damage_and_rewrites_nothing_that_is_equal(
    damaged: Project, compared: tuple[dict[str, bytes], Run], xdist: bool
) -> None:
    run = damaged.update(xdist=xdist)
    after = damaged.bytes()
    assert run.status == 0
    for name in DAMAGED:
        assert after[f"test_damage/test_{name}@cpu.fx.txt"] == HEAD + f"{name} 1\n".encode()
    for name, content in SOUND.items():
        assert after[f"test_damage/test_{name}@cpu.fx.txt"] == content
