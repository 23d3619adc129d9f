"""``check``: which snapshot files no run could read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_fxregion.__main__ import main
from tests.plugin.pytest_process import SOURCE_TREE

WHOLE = "# fxregion snapshot 1 | torch 2.13.0 | cpu\n\n# ==== joint ====\nx = 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.fx.txt").write_text(WHOLE)
    (tmp_path / "b" / "c.fx.txt").write_text(WHOLE)
    (tmp_path / "note.txt").write_text("<<<<<<< of no concern\n")
    return tmp_path


def test_whole_files_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder)]) == 0
    assert capsys.readouterr().out == "2 snapshots checked, 0 damaged\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE.replace("x = 1", "<<<<<<< ours\nx = 1"), ":4: merge-conflict marker"),
        (WHOLE[:-1], ":4: the snapshot file ends in the middle of a line"),
        (WHOLE.replace("snapshot 1", "snapshot 999"), ":1: the snapshot has format 999"),
        ("", ": the snapshot file is empty"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = folder / "b" / "c.fx.txt"
    file.write_text(text)
    assert main(["check", str(folder / "a.fx.txt"), str(file)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}{said}")
    assert last == "2 snapshots checked, 1 damaged"


def test_a_file_that_is_not_there_is_wrong_use(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(folder / "gone")]) == 2
    said = "gone: no such file or folder; name where the snapshots are: "
    assert f"{said}python -m pytest_fxregion check FOLDER\n" in capsys.readouterr().err


def test_the_hook_needs_python_alone(folder: Path) -> None:
    """pre-commit runs the script with whatever ``python3`` there is, and installs nothing."""
    (folder / "b" / "c.fx.txt").write_text("")
    done = subprocess.run(
        [sys.executable, "-I", "-S", SOURCE_TREE / "scripts" / "check_snapshots.py", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "1 damaged" in done.stdout
