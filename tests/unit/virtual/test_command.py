"""``python -m pytest_fxregion virtual``: what it runs, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_fxregion.__main__ import main
from pytest_fxregion.device import virtual
from tests.plugin.pytest_process import Project

SCRIPT = """
    import sys

    import torch

    x = torch.arange(3, device="cuda:0")
    print(sys.argv[1:], x.device, torch.cuda.get_device_capability(), (x * 2).tolist())
    sys.exit(3)
    """


def test_a_script_has_the_gpu_its_arguments_and_its_own_exit_status(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write({"script.py": SCRIPT})
    words = ("virtual", "--arch=a100", "script.py", "one", "--two")
    done = project.run(*words, module="pytest_fxregion")
    assert done.lines[-1] == "['one', '--two'] cuda:0 (8, 0) [0, 2, 4]"
    assert done.code == 3


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["virtual", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "error: there is no script nowhere.py\n"


def test_no_script_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["virtual"])
    assert "the following arguments are required: script\n" in capsys.readouterr().err


def test_the_help_names_every_command_and_what_needs_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "only virtual needs torch" in " ".join(shown.split())
    assert "``" not in shown
    for command in ("review", "compare", "merge", "virtual", "check"):
        assert f"\n    {command} " in shown


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
