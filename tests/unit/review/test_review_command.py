"""The conversation with a person, what a script gets instead, and what it costs to import."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_fxregion.__main__ import main
from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import write_document
from tests.unit.review.artifacts import Artifacts, document

REPOSITORY = Path(__file__).parents[3]
OLD, NEW = document("sin"), document("cos")


class Typed(io.StringIO):
    """A terminal in which these lines were typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def three(artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch) -> Artifacts:
    """Three candidates: two changed, one new; the command is given in the checkout."""
    for name in ("a", "b"):
        artifacts.hold(name, OLD)
        artifacts.offer(name, NEW, old=OLD)
    artifacts.offer("c", NEW)
    monkeypatch.chdir(artifacts.root)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return artifacts


def _holds_new(artifacts: Artifacts) -> str:
    """Return the names of the snapshots that hold the new value."""
    found = (artifacts.snapshot(name) for name in "abc")
    text = write_document(NEW)
    return "".join(path.name[0] for path in found if path.exists() and path.read_text() == text)


def _review(*arguments: str) -> int:
    return main(["review", "../downloaded", *arguments])


@pytest.mark.parametrize(
    ("typed", "accepted", "status"),
    [
        ("y\ny\ny\n", "abc", 0),
        ("y\nn\ny\n", "ac", 1),
        ("n\na\n", "bc", 1),
        ("a\n", "abc", 0),
        ("y\nq\n", "a", 1),
        ("y\n", "a", 1),  # the terminal was closed
        ("", "", 1),
        ("\nwhat\nyes\nNO\nQuit\n", "a", 1),
    ],
)
def test_each_candidate_is_asked_for(
    three: Artifacts, monkeypatch: pytest.MonkeyPatch, typed: str, accepted: str, status: int
) -> None:
    monkeypatch.setattr("sys.stdin", Typed(typed))
    assert _review() == status
    assert _holds_new(three) == accepted


def test_the_change_is_said_as_in_the_failure_and_shown_whole_on_d(
    three: Artifacts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("d\ny\n"))
    _review()
    question = "accept? [y]es, [n]o, [a]ll that follow, [d]iff, [q]uit: "
    failure = describe(OLD, NEW)
    changed = "snapshots/{}.fx.txt (changed)\n  " + "\n  ".join(failure.summary)
    assert capsys.readouterr().out.split("\n") == [
        "1/3 tests/a",
        *changed.format("a").split("\n"),
        "",
        question + failure.lines[0],
        *failure.lines[1:],
        "",
        question + "accepted: snapshots/a.fx.txt",
        "",
        "2/3 tests/b",
        *changed.format("b").split("\n"),
        "",
        question,  # the terminal was closed
        "1 accepted, 2 left",
        "",
    ]


def test_d_shows_the_whole_text_of_a_new_snapshot(
    three: Artifacts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("n\nn\nd\nn\n"))
    assert _review() == 1
    assert write_document(NEW) in capsys.readouterr().out


def test_list_accepts_nothing(three: Artifacts, capsys: pytest.CaptureFixture[str]) -> None:
    assert _review("--list") == 1
    out = capsys.readouterr().out
    assert "1. tests/a\nsnapshots/a.fx.txt (changed)\n  `cos` in joint: " in out
    assert "3. tests/c\nsnapshots/c.fx.txt (new)\n  what CI said of c\n" in out
    assert out.endswith("\n3 to review\n")
    assert _holds_new(three) == ""


def test_accept_all_needs_no_terminal(three: Artifacts, capsys: pytest.CaptureFixture[str]) -> None:
    assert _review("--accept-all") == 0
    assert capsys.readouterr().out.endswith("3 accepted, 0 left\n")
    assert _holds_new(three) == "abc"
    assert _review("--accept-all") == 0
    assert capsys.readouterr().out == "0 accepted, 0 left, 3 accepted before\n"
    assert _review("--list") == 0
    assert capsys.readouterr().out == "0 to review, 3 accepted before\n"


def test_without_a_terminal_one_line_says_what_to_give(
    three: Artifacts, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _review() == 2
    out, error = capsys.readouterr()
    assert (out, error) == (
        "",
        "error: this is no terminal to ask in: give --accept-all or --list\n",
    )
    assert _holds_new(three) == ""


def test_what_has_changed_since_is_said_and_left_without_force(
    three: Artifacts, capsys: pytest.CaptureFixture[str]
) -> None:
    three.hold("b", document("exp"))
    assert _review("--accept-all") == 1
    out = capsys.readouterr().out
    assert "not to be accepted: snapshots/b.fx.txt has changed since\n" in out
    assert out.endswith("2 accepted, 1 left\n")
    assert _holds_new(three) == "ac"
    assert _review("--accept-all", "--force") == 0
    assert _holds_new(three) == "abc"


def test_a_damaged_candidate_is_said_and_left(
    three: Artifacts, capsys: pytest.CaptureFixture[str]
) -> None:
    (three.folder / "snapshots/b.fx.txt").write_text("nonsense\n")
    assert _review("--accept-all", "--force") == 1
    assert "not to be accepted: the candidate:1: not a snapshot" in capsys.readouterr().out
    assert _holds_new(three) == "ac"


def test_root_says_where_the_snapshots_are(
    three: Artifacts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(three.base)
    assert main(["review", "downloaded", "--accept-all"]) == 2
    assert "give --root with the folder that is pytest's rootdir" in capsys.readouterr().err
    assert main(["review", "downloaded", "--accept-all", "--root", "checkout"]) == 0
    assert _holds_new(three) == "abc"


@pytest.mark.parametrize(
    "arguments",
    [
        ["review", "nowhere", "--list"],
        ["review", "--list"],  # no fxregion-artifacts here
        ["review", "../downloaded", "--list", "--root", "nowhere"],
    ],
)
def test_wrong_folders_are_one_line_and_status_2(
    three: Artifacts, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_usage_errors_have_status_2(three: Artifacts) -> None:
    for arguments in ([], ["nonsense"], ["review", "--list", "--accept-all"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def test_several_folders_are_reviewed_together(
    three: Artifacts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Artifacts(tmp_path_factory.mktemp("other"))
    other.offer("d", NEW)
    assert main(["review", "../downloaded", str(other.folder), "--accept-all"]) == 0
    assert three.snapshot("d").exists()


def test_commands_to_the_terminal_are_shown_as_text(
    three: Artifacts, capsys: pytest.CaptureFixture[str]
) -> None:
    new = document("cos", tag="\x1b[2J\u202e\x07")
    three.offer("e", new, old=OLD)
    three.hold("e", OLD)
    _review("--list")
    out = capsys.readouterr().out
    assert "\\x1b[2J\\u202e\\x07" in out
    assert not {"\x1b", "\u202e", "\x07"} & set(out)


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "triton", "syrupy", "numpy"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
from pytest_fxregion.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["review", "compare"])
def test_neither_command_needs_torch(three: Artifacts, command: str) -> None:
    arguments = {
        "review": ["../downloaded", "--accept-all"],
        "compare": ["snapshots", "../downloaded/snapshots"],
    }
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, command, *arguments[command]],
        cwd=three.root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == ({"review": 0, "compare": 1}[command], "")


def test_a_reader_that_has_seen_enough_is_no_error(three: Artifacts) -> None:
    run = subprocess.run(
        f"{sys.executable} -m pytest_fxregion review ../downloaded --list | head -n 1",
        shell=True,
        cwd=three.root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("1. tests/a\n", "")
