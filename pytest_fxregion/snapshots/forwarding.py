"""Snapshots that are written by a worker in another folder, or on another machine.

Comes in: what a worker wrote into its own copy of the project.  Goes out: the same files in the
project that the run was started in.  With ``--tx ssh=...`` or ``--tx popen//chdir=...`` xdist's
workers run in copies, and what they write there alone would be lost.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_fxregion.snapshots.files import remove, write_atomically

WORKER_INPUT = "fxregion_project"
_NOTE = "fxregion-written"


def identity(rootdir: Path) -> list[str | int]:
    """Return what tells a project's folder from any copy of it, in builtins."""
    status = os.stat(rootdir)
    return [socket.gethostname(), str(rootdir), status.st_dev, status.st_ino]


def is_a_copy(config: pytest.Config) -> bool:
    """Say whether this process is a worker in another folder than the run was started in."""
    given = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    return given is not None and list(given) != identity(config.rootpath)


def send(report: pytest.TestReport, root: Path, written: Mapping[Path, str | None]) -> None:
    """Attach to a test's report what was written below ``root``."""
    files = {path.relative_to(root).as_posix(): text for path, text in written.items()}
    report.user_properties.append((_NOTE, json.dumps(files)))


class Receiver:
    """Where reports are gathered: writes what workers in copies of the project have written."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.problems: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the files out of a report; they are of no use to others that read it."""
        notes = [str(value) for name, value in report.user_properties if name == _NOTE]
        if notes:
            report.user_properties = [p for p in report.user_properties if p[0] != _NOTE]
        for note in notes:
            for name, text in json.loads(note).items():
                try:
                    self._put(self._root / name, text)
                except OSError as error:
                    self.problems.append(f"cannot write {name} for {report.nodeid}: {error}")

    def _put(self, path: Path, text: str | None) -> None:
        if text is None:
            remove(path, self._root)
        else:
            write_atomically(path, text)
