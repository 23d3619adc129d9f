"""What is loaded into the process comes from a folder that nobody else can change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_fxregion.cache import own_subfolder


def test_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = own_subfolder(tmp_path, "ours")
    assert folder == tmp_path.resolve() / "ours"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert own_subfolder(tmp_path, "ours") == folder


@pytest.mark.parametrize("mode", [0o755, 0o707, 0o770])
def test_folder_that_others_can_enter_is_not_used(tmp_path: Path, mode: int) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours").chmod(mode)
    assert own_subfolder(tmp_path, "ours") is None


def test_folder_that_others_can_replace_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True)
    shared.chmod(0o777)
    assert own_subfolder(shared / "cache", "ours") is None
    shared.chmod(0o1777)  # as /tmp: only the owner renames what is in it
    assert own_subfolder(shared / "cache", "ours") is not None


def test_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "ours").symlink_to(tmp_path / "elsewhere")
    assert own_subfolder(tmp_path, "ours") is None


def test_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_subfolder(tmp_path, "ours")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert own_subfolder(tmp_path, "ours") is None


def test_parent_that_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert own_subfolder(tmp_path / "file", "ours") is None
