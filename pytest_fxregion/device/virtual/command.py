"""``python -m pytest_fxregion virtual SCRIPT``: run a script on the virtual device."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from pytest_fxregion.device import virtual
from pytest_fxregion.errors import DeviceError


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "virtual",
        help="run a script with a virtual GPU",
        description="Run a Python script with a virtual GPU in the place of cuda:0.",
    )
    parser.add_argument("--arch", default="h100", help="the GPU it stands for (default: h100)")
    parser.add_argument("script", type=Path)
    own = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    own.required = False  # argparse would ask for them where the script is missing
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the script; what it exits with is the status.

    Raises :class:`~pytest_fxregion.errors.DeviceError` where there can be no virtual device, or no
    such script.
    """
    if not chosen.script.is_file():
        raise DeviceError(f"there is no script {chosen.script}")
    if chosen.arch not in virtual.ARCHITECTURES:
        known = ", ".join(sorted(virtual.ARCHITECTURES))
        raise DeviceError(f"--arch={chosen.arch}: not one of {known}")
    missing = virtual.unavailable()
    if missing is not None:
        raise DeviceError(missing)
    virtual.load(lambda line: print(line, file=sys.stderr, flush=True))
    sys.argv = [str(chosen.script), *chosen.arguments]
    with virtual.activate(chosen.arch):
        runpy.run_path(str(chosen.script), run_name="__main__")
    return 0
