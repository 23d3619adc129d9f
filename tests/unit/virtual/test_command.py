"""What ``python -m pytest_fxregion virtual`` refuses; on_device_culprit.py has it run scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_fxregion.__main__ import main
from pytest_fxregion.device import virtual


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["virtual", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "error: there is no script nowhere.py\n"


def test_an_unknown_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["virtual", "--arch=h1", __file__]) == 2
    assert "error: --arch=h1: not one of a100, b200, h100" in capsys.readouterr().err


def test_a_machine_without_a_virtual_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(virtual, "unavailable", lambda: "it needs a compiler")
    script = tmp_path / "script.py"
    script.write_text("raise AssertionError")
    assert main(["virtual", str(script)]) == 2
    assert capsys.readouterr().err == "error: it needs a compiler\n"
