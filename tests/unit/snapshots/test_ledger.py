"""Which file a value is read from and written to, and how a file is written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxregion.snapshots.files import remove, write_atomically
from pytest_fxregion.snapshots.ledger import TestRecord, placement, same_sections
from pytest_fxregion.snapshots.settings import Place, Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        root=tmp_path / "snapshots",
        rootdir=tmp_path,
        tests_root=tmp_path / "tests",
        device="cpu",
        device_variants=(),
        torch_version="2.13.0",
        record=None,
        update=True,
        may_write=True,
        command=("--fxregion",),
        artifacts=None,
    )


def target(settings: Settings, *stored: str, variants: tuple[str, ...] = ()) -> str:
    """Return the name of the file that a new value goes to, with these files there."""
    folder = settings.root / "test_a"
    folder.mkdir(parents=True, exist_ok=True)
    for name in stored:
        (folder / f"test_x{name}.fx.txt").write_text("")
    record = TestRecord(
        nodeid="tests/test_a.py::test_x",
        place=Place(PurePosixPath("test_a"), "test_x", "test_x"),
        device_variants=variants,
        settings=settings,
    )
    return placement(record, 0).target.name.removesuffix(".fx.txt").removeprefix("test_x")


def test_cuda_writes_the_base_unless_a_variant_holds_the_value(settings: Settings) -> None:
    assert target(settings) == ""
    assert target(settings, "", "@cpu", "@torch2.11") == ""
    assert target(settings, "@torch2.13") == "@torch2.13"


def test_the_cpu_never_writes_the_base(settings: Settings) -> None:
    assert target(settings, "", variants=("cpu",)) == "@cpu"
    assert target(settings, "@torch2.13", variants=("cpu",)) == "@cpu"
    assert target(settings, "@cpu-torch2.13", variants=("cpu",)) == "@cpu-torch2.13"


def test_a_recorded_variant_is_written_whatever_is_there(settings: Settings) -> None:
    recording = replace(settings, record="laptop")
    assert target(recording, "", "@cpu", "@cpu-torch2.13", variants=("cpu",)) == "@laptop"


@pytest.mark.parametrize(
    ("record", "variants", "removable"),
    [
        (None, (), {None, "torch2.13"}),
        (None, ("cpu",), {"cpu", "cpu-torch2.13"}),
        ("laptop", ("cpu",), set()),
    ],
)
def test_only_files_of_the_own_variants_may_be_called_unused(
    settings: Settings, record: str | None, variants: tuple[str, ...], removable: set[str | None]
) -> None:
    assert replace(settings, record=record).removable(variants) == removable


def test_a_written_file_is_utf8_with_lf(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.fx.txt"
    write_atomically(path, "\u00e4\nb\n")
    assert path.read_bytes() == b"\xc3\xa4\nb\n"
    assert os.listdir(path.parent) == ["b.fx.txt"]


def test_a_file_keeps_its_mode_and_a_symlink_its_target(tmp_path: Path) -> None:
    file, link = tmp_path / "file.fx.txt", tmp_path / "link.fx.txt"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_atomically(link, "new\n")
    assert link.is_symlink()
    assert file.read_text() == "new\n"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x.fx.txt", "x\n")
    finally:
        os.umask(before)
    assert (tmp_path / "x.fx.txt").stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.fx.txt"
    path.write_text("old\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new\n")
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["x.fx.txt"]


def test_removing_takes_empty_folders_but_not_the_root(tmp_path: Path) -> None:
    path = tmp_path / "snapshots" / "a" / "b" / "x.fx.txt"
    write_atomically(path, "x\n")
    write_atomically(tmp_path / "snapshots" / "a" / "y.fx.txt", "y\n")
    remove(path, tmp_path / "snapshots")
    assert not path.parent.exists()
    assert (tmp_path / "snapshots" / "a").exists()
    remove(path, tmp_path / "snapshots")  # gone already: another run was faster


def test_first_lines_and_line_ends_make_no_difference() -> None:
    one = "# fxregion snapshot 1 | torch 2.13\n\n# ==== a ====\nx\n"
    assert same_sections(one, one.replace("2.13", "2.14").replace("\n", "\r\n"))
    assert not same_sections(one, one.replace("x\n", "y\n"))
    assert not same_sections(one, "")
