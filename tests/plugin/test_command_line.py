"""What a run says of itself at its start, and how it refuses options, in one line each.

Nothing here runs a test, so nothing imports torch.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_fxregion import torch_version
from tests.plugin.pytest_process import Finished, Project

ON_CPU = ("--fxregion", "--fxregion-device=cpu")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write({"pytest.ini": "[pytest]\n", "test_none.py": "def test_none(): pass\n"})
    return made


def refused(done: Finished) -> str:
    """Return the line of a run that was refused."""
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.text
    assert "Traceback" not in done.text
    assert "INTERNALERROR" not in done.text
    (line,) = [line for line in done.lines if "fxregion: " in line]
    return line


def test_the_header_says_torch_device_and_snapshot_folder(project: Project) -> None:
    done = project.run(*ON_CPU)
    version = torch_version.installed()
    assert (
        done.line("fxregion: ") == f"fxregion: torch {version}, device cpu, snapshots in snapshots"
    )
    assert "--- fxregion" not in done.text  # nothing ran, so there is no summary


def test_the_header_names_a_snapshot_folder_elsewhere(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / "elsewhere"
    done = project.run(*ON_CPU, f"--fxregion-snapshot-dir={elsewhere}")
    assert done.line("fxregion: ").endswith(f"snapshots in {elsewhere}")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", "[pytest]\nfxregion = true\nfxregion_device = cpu\n"),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\nfxregion = true\nfxregion_device = "cpu"\n',
        ),
        pytest.param(
            "pyproject.toml",
            '[tool.pytest]\nfxregion = true\nfxregion_device = "cpu"\n',
            marks=pytest.mark.skipif(
                pytest.version_tuple < (9,), reason="pytest 9 reads TOML's own types"
            ),
        ),
    ],
)
def test_options_may_stand_in_the_ini_file(tmp_path: Path, file: str, text: str) -> None:
    project = Project(tmp_path)
    project.write({file: text, "test_none.py": "def test_none(): pass\n"})
    assert "device cpu" in project.run().line("fxregion: ")


def test_an_option_in_the_environment_counts(project: Project) -> None:
    done = project.run(env={"PYTEST_ADDOPTS": " ".join(ON_CPU)})
    assert "device cpu" in done.line("fxregion: ")


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["serial", "xdist"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--fxregion-device=gpu", ["--fxregion-device=gpu", "auto, cuda, virtual, cpu"]),
        ("--fxregion-stages=joint,bakward", ["bakward", "the stages are joint, forward"]),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(
    project: Project, option: str, words: list[str], processes: tuple[str, ...]
) -> None:
    line = refused(project.run("--fxregion", option, *processes))
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--fxregion-gpu=sometimes", "skip, required"),
        ("--fxregion-record=../up", "../up"),
        ("--fxregion-record=a@b", "a@b"),
        ("--fxregion-record=torch2.11", "own: cpu-torch"),
    ],
)
def test_other_wrong_values(project: Project, option: str, word: str) -> None:
    assert word in refused(project.run(*ON_CPU, option))


def test_an_unknown_architecture_is_refused(project: Project) -> None:
    line = refused(
        project.run("--fxregion", "--fxregion-device=virtual", "--fxregion-arch=voodoo2")
    )
    assert "--fxregion-arch=voodoo2: not one of" in line


def test_a_wrong_ini_value_is_refused(project: Project) -> None:
    project.write({"pytest.ini": "[pytest]\nfxregion = maybe\n"})
    assert "fxregion in the ini file: invalid truth value 'maybe'" in refused(project.run())


def test_a_wrong_option_is_an_error_even_where_nothing_is_asked_for(project: Project) -> None:
    assert "--fxregion-device=gpu" in refused(project.run("--fxregion-device=gpu"))


def installed(folder: Path, version: str) -> dict[str, str]:
    """Return the environment of a run that finds this version of torch first."""
    info = folder / "packages" / f"torch-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return {"PYTHONPATH": str(info.parent)}


@pytest.mark.parametrize("options", [ON_CPU, ("--fxregion",), (*ON_CPU, "-n", "2")], ids=len)
def test_a_torch_that_is_too_old_is_refused(
    project: Project, tmp_path: Path, options: tuple[str, ...]
) -> None:
    line = refused(project.run(*options, env=installed(tmp_path, "2.10.1+cu128"), anew=True))
    assert "needs torch 2.11 or newer, but 2.10.1+cu128 is installed" in line
    assert "pip install 'torch>=2.11'" in line


def test_a_newer_torch_gets_a_line_in_the_header(project: Project, tmp_path: Path) -> None:
    done = project.run(*ON_CPU, env=installed(tmp_path, "2.99.0"), anew=True)
    assert done.code == 0
    done.line("fxregion: torch 2.99.0 is newer than the newest tested")


# Hides torch's metadata from everything that starts in this environment.
HIDE = """
from importlib import metadata

distribution = metadata.Distribution.from_name.__func__

@classmethod
def from_name(cls, name):
    if name == "torch":
        raise metadata.PackageNotFoundError(name)
    return distribution(cls, name)

metadata.Distribution.from_name = from_name
"""


def test_a_missing_torch_is_refused(project: Project, tmp_path: Path) -> None:
    project.write({"hidden/sitecustomize.py": HIDE})
    env = {"PYTHONPATH": os.fspath(tmp_path / "hidden")}
    line = refused(project.run("--fxregion", env=env, anew=True))
    assert "--fxregion needs torch, which is not installed: pip install 'torch>=2.11'" in line
    assert project.run(env=env, anew=True).code == 0  # and without --fxregion it is not missed


def test_a_run_without_syrupy_is_refused(project: Project) -> None:
    line = refused(project.run(*ON_CPU, "-p", "no:syrupy"))
    assert "--fxregion needs syrupy's plugin, which is switched off" in line
    assert project.run("-p", "no:syrupy").code == 0
