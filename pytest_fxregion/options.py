"""Command line and ini file in, one frozen :class:`Options` out.  Imports neither torch nor syrupy.

Every option has an ini twin: ``--fxregion-device`` is ``fxregion_device`` in the ini file, and the
command line wins.  Values are plain strings, so that they survive the way to xdist's workers.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from pytest_fxregion.errors import OptionError

DEVICES = ("auto", "cuda", "virtual", "cpu")
# The parts of a compilation that a snapshot holds unless told otherwise, in pipeline order.
STAGES = ("joint", "forward", "backward", "inference", "saved", "regions")
# Kernels depend on the architecture and on Inductor's tuning: they are there when asked for.
ALL_STAGES = (*STAGES, "kernels")


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    ``stages`` are the parts of a compilation that snapshots hold; ``record`` names the variant that
    new values are recorded for; ``artifacts`` is where failing runs leave new values;
    ``command`` repeats the options of this run in a command; ``strict`` makes
    our warnings errors; ``show`` prints graphs and
    numbers; ``compile_kernels`` compiles Triton kernels to machine code; ``report`` is the HTML
    page to write, ``codequality`` GitLab's file.
    """

    active: bool
    device: str
    arch: str
    stages: tuple[str, ...]
    record: str | None
    gpu_required: bool
    allow_ci_update: bool
    strict: bool
    show: bool
    compile_kernels: bool
    snapshot_dir: Path
    artifacts: Path
    report: Path | None
    codequality: Path | None
    command: tuple[str, ...]


@dataclass(frozen=True)
class _Option:
    name: str
    help: str
    default: str
    metavar: str | None = None  # None: a switch
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


_OPTIONS = (
    _Option("fxregion", "run the fxregion tests (they are skipped without it)", "false"),
    _Option(
        "fxregion_device",
        "device under test: auto takes a GPU if there is one",
        "auto",
        "DEVICE",
        DEVICES,
    ),
    _Option("fxregion_arch", "GPU that the virtual device stands for", "h100", "ARCH"),
    _Option(
        "fxregion_stages",
        f"comma-separated parts of a compilation to snapshot, of {', '.join(ALL_STAGES)}",
        ",".join(STAGES),
        "STAGES",
    ),
    _Option(
        "fxregion_record",
        "record new snapshots as this variant (with --snapshot-update)",
        "",
        "VARIANT",
    ),
    _Option(
        "fxregion_gpu",
        "what to do with tests that need a GPU where there is none",
        "skip",
        "MODE",
        ("skip", "required"),
    ),
    _Option("fxregion_strict", "fail where annotated code is in no compiled region", "false"),
    _Option("fxregion_show", "print the graphs and the checked numbers of every run", "false"),
    _Option(
        "fxregion_compile_kernels",
        "compile every Triton kernel to machine code (no GPU needed) and warn of register spills",
        "false",
    ),
    _Option("fxregion_allow_ci_update", "let --snapshot-update write when CI is set", "false"),
    _Option("fxregion_snapshot_dir", "folder of the snapshots, from rootdir", "snapshots", "DIR"),
    _Option(
        "fxregion_artifacts",
        "folder for what failing checks leave behind, from rootdir",
        "fxregion-artifacts",
        "DIR",
    ),
    _Option(
        "fxregion_report", "write an HTML page of the run to this file, from rootdir", "", "PATH"
    ),
    _Option(
        "fxregion_codequality",
        "write failures to this file, from rootdir, as a code quality report for GitLab",
        "",
        "PATH",
    ),
)


# Options that change what is shown of a run, and nothing of what it does.
_SHOWING = ("fxregion_show", "fxregion_report", "fxregion_codequality")


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin."""
    group = parser.getgroup("fxregion", "regional Inductor snapshots (pytest-fxregion)")
    for option in _OPTIONS:
        if option.metavar is None:
            group.addoption(
                option.flag, action="store_true", default=None, dest=option.name, help=option.help
            )
        else:
            group.addoption(
                option.flag,
                default=None,
                dest=option.name,
                metavar=option.metavar,
                help=f"{option.help} (default: {option.default or 'none'})",
            )
        kind: Literal["string", "bool"] = "bool" if option.metavar is None else "string"
        described = f"ini twin of {option.flag}: {option.help}"
        parser.addini(option.name, described, type=kind, default=None)


def read_options(config: pytest.Config, command_line: argparse.Namespace) -> Options:
    """Combine command line and ini file.  Raises :class:`OptionError` on a wrong value."""
    value = {option.name: _value(config, command_line, option) for option in _OPTIONS}
    root = config.rootpath
    return Options(
        active=_switch("fxregion", value["fxregion"]),
        device=value["fxregion_device"],
        arch=value["fxregion_arch"],
        stages=_stages(value["fxregion_stages"]),
        record=value["fxregion_record"] or None,
        gpu_required=value["fxregion_gpu"] == "required",
        allow_ci_update=_switch("fxregion_allow_ci_update", value["fxregion_allow_ci_update"]),
        strict=_switch("fxregion_strict", value["fxregion_strict"]),
        show=_switch("fxregion_show", value["fxregion_show"]),
        compile_kernels=_switch("fxregion_compile_kernels", value["fxregion_compile_kernels"]),
        snapshot_dir=root / value["fxregion_snapshot_dir"],
        artifacts=root / value["fxregion_artifacts"],
        report=_file("--fxregion-report", value["fxregion_report"], root),
        codequality=_file("--fxregion-codequality", value["fxregion_codequality"], root),
        command=_command(command_line),
    )


def _value(config: pytest.Config, command_line: argparse.Namespace, option: _Option) -> str:
    given = getattr(command_line, option.name)
    if given is None:
        try:
            given = config.getini(option.name)
        except (ValueError, pytest.UsageError) as error:  # which does not name the option
            raise OptionError(f"{option.name} in the ini file: {error}") from None
    if given is None or given == "":
        given = option.default
    text = str(given).strip()
    if option.choices and text not in option.choices:
        raise OptionError(
            f"{option.flag}={text} (or {option.name} in the ini file): "
            f"not one of {', '.join(option.choices)}"
        )
    return text


def _command(command_line: argparse.Namespace) -> tuple[str, ...]:
    """The options that were given on the command line, as they would be typed again."""
    given = [(option, getattr(command_line, option.name)) for option in _OPTIONS]
    return tuple(
        option.flag if option.metavar is None else f"{option.flag}={value}"
        for option, value in given
        if value not in (None, False) and option.name not in _SHOWING
    )


def _file(flag: str, text: str, root: Path) -> Path | None:
    """The file to write, if one is named; refused here, not after an hour of tests."""
    if not text:
        return None
    if (root / text).is_dir():
        raise OptionError(f"{flag}={text}: a folder; name the file to write")
    return root / text


def _switch(name: str, text: str) -> bool:
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise OptionError(f"{name} = {text} in the ini file: neither true nor false")


def _stages(text: str) -> tuple[str, ...]:
    asked = [stage.strip() for stage in text.split(",") if stage.strip()]
    unknown = [stage for stage in asked if stage not in ALL_STAGES]
    if unknown or not asked:
        raise OptionError(
            f"--fxregion-stages={text}: {', '.join(unknown) or 'nothing'} asked for; "
            f"the stages are {', '.join(ALL_STAGES)}"
        )
    return tuple(stage for stage in ALL_STAGES if stage in asked)
