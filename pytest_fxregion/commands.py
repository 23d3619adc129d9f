"""The command that runs one test as this run did, for a failure's last line."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

# Where pytest looks for its settings, and so for a project's root folder.
_INI_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


def test_command(item: pytest.Item, options: Sequence[str]) -> str:
    """Return the command, to be typed in the folder that this run was started from."""
    config = item.config
    nodeid = item.nodeid
    start = config.invocation_params.dir
    if start != config.rootpath:
        file, separator, rest = nodeid.partition("::")
        nodeid = os.path.relpath(config.rootpath / file, start) + separator + rest
    return shlex.join([*_program(config), nodeid, *_project(item), *options])


test_command.__test__ = False  # type: ignore[attr-defined] # pytest must not take it for a test


def _program(config: pytest.Config) -> Sequence[str]:
    """Return how pytest was started: as a module it finds imports of the folder that it ran in."""
    worker = getattr(config, "workerinput", {})  # xdist's, whose own arguments are execnet's
    program = Path(worker.get("mainargv", sys.argv)[0])
    as_module = program.parts[-2:] == ("pytest", "__main__.py")
    return ("python", "-m", "pytest") if as_module else ("pytest",)


def _project(item: pytest.Item) -> Iterator[str]:
    """Yield the options without which the test would be one of another project, or device.

    Snapshots are below pytest's root folder.  A run of one test looks for that from the test's file
    upwards, and takes that of a package with an ini file of its own for it.
    """
    config = item.config
    option = config.option
    start = config.invocation_params.dir
    if option.inifilename:
        yield from ("-c", option.inifilename)
    if option.rootdir:
        yield f"--rootdir={option.rootdir}"
    elif not option.inifilename and _has_ini_file_of_its_own(item):
        if config.inipath is not None:
            yield from ("-c", os.path.relpath(config.inipath, start))
        else:
            yield f"--rootdir={os.path.relpath(config.rootpath, start)}"
    for setting in option.override_ini or ():
        yield from ("-o", setting)


def _has_ini_file_of_its_own(item: pytest.Item) -> bool:
    """Say whether pytest might find another root folder from the test's file than it has now."""
    for folder in item.path.parents:
        if folder == item.config.rootpath:
            return False
        if any((folder / name).is_file() for name in _INI_FILES):
            return True
    return False  # the test lies outside of the root folder
