"""``check``: snapshot files in, those that no run could read out.  Needs nothing but Python.

It is what the pre-commit hook runs: a file with conflict markers, cut off, or of a newer format is
found before it is committed, and not by the next run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_fxregion.errors import OptionError, SnapshotError
from pytest_fxregion.snapshots.document import read_document
from pytest_fxregion.snapshots.names import SUFFIX

_EPILOG = "exit status: 0 every file can be read; 1 some cannot; 2 there is no such file or folder."


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "check",
        help="say which snapshot files cannot be read",
        description="Say which snapshot files have conflict markers, are cut off or too new.",
        epilog=_EPILOG,
    )
    _add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check; returns the exit status.

    Raises:
        OptionError: a file or folder is not there.

    """
    checked, damaged = 0, 0
    for file in snapshot_files(arguments.paths):
        checked += 1
        try:
            read_document(file, source=str(file))
        except SnapshotError as error:
            damaged += 1
            print(error)
    print(f"{checked} snapshot{'s' if checked != 1 else ''} checked, {damaged} damaged")
    return 1 if damaged else 0


def snapshot_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files among ``paths``, and the snapshots below the folders among them.

    Raises:
        OptionError: one of them is not there.

    """
    for path in paths:
        if path.is_dir():
            for current, folders, files in os.walk(path):
                folders.sort()
                yield from (Path(current, name) for name in sorted(files) if name.endswith(SUFFIX))
        elif path.exists():
            yield path
        else:
            raise OptionError(
                f"{path}: no such file or folder; name where the snapshots are: "
                "python -m pytest_fxregion check FOLDER"
            )


def main(arguments: Sequence[str]) -> int:
    """Run the command alone, as the pre-commit hook does."""
    parser = argparse.ArgumentParser(prog="check-snapshots", epilog=_EPILOG)
    _add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except OptionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        type=Path,
        nargs="*",
        default=[Path("snapshots")],
        help="a snapshot file, or a folder of them (default: snapshots)",
    )
