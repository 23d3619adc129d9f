"""Command line and ini file in, one Options out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pytest_fxregion.errors import OptionError
from pytest_fxregion.options import DEVICES, STAGES, Options, add_options, read_options

ROOT = Path("/project")


class Ini:
    """What ``read_options`` asks of pytest's configuration."""

    rootpath = ROOT

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def getini(self, name: str) -> Any:
        return self._values.get(name)


def options(*command_line: str, **ini: Any) -> Options:
    """Read the options as pytest would hand them over."""
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    namespace = parser.parse(list(command_line))
    return read_options(cast(pytest.Config, Ini(ini)), namespace)


def test_without_options_nothing_is_active() -> None:
    found = options()
    assert not found.active
    assert (found.device, found.arch, found.stages) == ("auto", "h100", STAGES)
    assert (found.record, found.gpu_required, found.allow_ci_update, found.show) == (
        None,
        False,
        False,
        False,
    )
    assert found.snapshot_dir == ROOT / "snapshots"
    assert found.artifacts == ROOT / "fxregion-artifacts"
    assert found.report is None
    assert found.command == ()


@pytest.mark.parametrize(
    ("flag", "ini", "field", "value"),
    [
        ("--fxregion", {"fxregion": "true"}, "active", True),
        ("--fxregion-device=cpu", {"fxregion_device": "cpu"}, "device", "cpu"),
        ("--fxregion-arch=a100", {"fxregion_arch": "a100"}, "arch", "a100"),
        ("--fxregion-stages=joint", {"fxregion_stages": "joint"}, "stages", ("joint",)),
        ("--fxregion-record=rocm", {"fxregion_record": "rocm"}, "record", "rocm"),
        ("--fxregion-gpu=required", {"fxregion_gpu": "required"}, "gpu_required", True),
        ("--fxregion-show", {"fxregion_show": "yes"}, "show", True),
        (
            "--fxregion-compile-kernels",
            {"fxregion_compile_kernels": "on"},
            "compile_kernels",
            True,
        ),
        (
            "--fxregion-allow-ci-update",
            {"fxregion_allow_ci_update": "1"},
            "allow_ci_update",
            True,
        ),
        (
            "--fxregion-snapshot-dir=a/b",
            {"fxregion_snapshot_dir": "a/b"},
            "snapshot_dir",
            ROOT / "a/b",
        ),
        ("--fxregion-artifacts=/x", {"fxregion_artifacts": "/x"}, "artifacts", Path("/x")),
        ("--fxregion-report=a.html", {"fxregion_report": "a.html"}, "report", ROOT / "a.html"),
    ],
)
def test_each_option_has_an_ini_twin(
    flag: str, ini: dict[str, str], field: str, value: object
) -> None:
    assert getattr(options(flag), field) == value
    assert getattr(options(**ini), field) == value


def test_the_command_line_wins() -> None:
    assert options("--fxregion-device=cpu", fxregion_device="cuda").device == "cpu"
    assert options("--fxregion", fxregion="false").active


def test_an_empty_value_means_the_default() -> None:
    assert options("--fxregion-stages=", fxregion_device="").device == "auto"
    assert options("--fxregion-stages=").stages == STAGES


def test_stages_come_in_pipeline_order_whatever_order_they_are_asked_in() -> None:
    assert options("--fxregion-stages= backward, joint ,joint").stages == ("joint", "backward")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--fxregion-device=gpu", ["--fxregion-device=gpu", "not one of", *DEVICES]),
        ("--fxregion-gpu=maybe", ["--fxregion-gpu=maybe", "skip, required"]),
        ("--fxregion-stages=joint,forwards", ["forwards", "the stages are", *STAGES]),
        ("--fxregion-stages=,", ["nothing asked for"]),
    ],
)
def test_a_wrong_value_is_named_with_the_right_ones(flag: str, words: list[str]) -> None:
    with pytest.raises(OptionError) as error:
        options(flag)
    for word in words:
        assert word in str(error.value)


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    for flag in ("--fxregion-report", "--fxregion-codequality"):
        with pytest.raises(OptionError, match=f"{flag}=.*: a folder; name the file to write"):
            options(f"{flag}={tmp_path}")


def test_a_wrong_ini_value_is_named_as_such() -> None:
    with pytest.raises(OptionError, match="fxregion = maybe in the ini file"):
        options(fxregion="maybe")
    with pytest.raises(OptionError, match="fxregion_device in the ini file"):
        options(fxregion_device="tpu")


@pytest.mark.parametrize("text", ["true", "True", "1", "yes", "on", True])
def test_ways_to_say_yes_in_an_ini_file(text: object) -> None:
    assert options(fxregion=text).active


@pytest.mark.parametrize("text", ["false", "0", "no", "OFF", False])
def test_ways_to_say_no_in_an_ini_file(text: object) -> None:
    assert not options(fxregion=text).active


def test_the_command_repeats_what_was_typed_and_matters_to_snapshots() -> None:
    given = ("--fxregion", "--fxregion-device=cpu", "--fxregion-show", "--fxregion-stages=joint")
    assert options(*given).command == (
        "--fxregion",
        "--fxregion-device=cpu",
        "--fxregion-stages=joint",
    )
    assert options(fxregion="true").command == ()


def test_options_can_be_sent_to_another_process() -> None:
    import pickle

    found = options("--fxregion")
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(options("--fxregion"))
