"""A process that has loaded what every command loads, and runs each command in a fork of itself.

``pytest`` and ``python -m …`` on these pages take seconds to import torch and Inductor, and little
else.  Here both are imported once, with the virtual device in place, and nothing is run before the
fork.  This file is a program that imports nothing of ``tests``, which is a package of the pages'
projects as well; :class:`Forks` talks to it.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path


class Forks:
    """The process, seen from the test; started with the environment of its commands."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            # -P: what is beside this file is not what commands import.
            [sys.executable, "-P", __file__],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, words: list[str], folder: Path, output: Path) -> int:
        """Run ``pytest …`` or ``python -m …`` in a folder; return its exit status.

        What it prints goes into the file ``output``.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"words": words, "folder": str(folder), "output": str(output)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Read a command a line, run it, and write its exit status."""
    answers = os.fdopen(os.dup(1), "w")
    _load()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(request["words"], request["folder"], request["output"])
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _load() -> None:
    from pytest_fxregion.device import virtual

    virtual.load()
    with virtual.activate("h100"):  # modules ask about the device while they are imported
        for name in ("compile_fx", "lowering", "select_algorithm"):
            import_module(f"torch._inductor.{name}")
        for name in ("pytest", "syrupy", "xdist.plugin", "pytest_fxregion.harness"):
            import_module(name)


def _run(words: list[str], folder: str, output: str) -> None:
    """Be the command, and end."""
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ["PWD"] = folder
    if words[0] == "python":
        sys.path.insert(0, folder)
        words = words[2:]
    sys.argv = words
    status: object = 0
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    serve()
