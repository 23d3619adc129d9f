"""A process that has loaded what every command loads, and runs each command in a fork of itself.

``pytest`` and ``python -m …`` take seconds to import torch and Inductor, and often little else.
Here both are imported once, with the virtual device in place, and nothing is compiled before the
fork.  What depends on how an interpreter starts needs a process of its own: a hash seed, a setting
that torch reads while it is imported, whether it is imported at all.

This file is a program that imports nothing of ``tests``, which is a package of other projects as
well; :class:`Forks` talks to it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.metadata import entry_points
from pathlib import Path


class Forks:
    """The process, seen from the test; started with the environment that it imports torch in."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            # -P: what is beside this file is not what commands import.
            [sys.executable, "-P", __file__],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._stop)

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> tuple[int, str]:
        """Run ``pytest …`` or ``python -m …``; return its exit status and all that it printed."""
        with tempfile.NamedTemporaryFile() as output:
            status = self.run_into(output.name, words, folder, environment)
            return status, output.read().decode("utf-8", "replace")

    def run_into(
        self, output: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> int:
        """Run a command that prints into ``output``, a file or a terminal; return its status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "words": list(words),
            "folder": str(folder),
            "environment": dict(environment),
            "output": output,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline()
        assert status, f"the process of all forks ended before {words} did"
        return int(status)

    def _stop(self) -> None:
        self._process.communicate()


@cache
def forks() -> Forks:
    """Return the process that all tests of this one share."""
    # Imported here: as a program this file has no package around it.
    from tests.plugin.pytest_process import SOURCE_TREE, clean_environment

    return Forks({**clean_environment(), "PYTHONPATH": str(SOURCE_TREE)})


def serve() -> None:
    """Read a command a line, run it, and write its exit status."""
    answers = os.fdopen(os.dup(1), "w")
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    _load()
    gc.collect()
    gc.freeze()  # a million objects that no fork has to look at, or copy
    found = [each for each in sys.path if each not in own]
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            _run(request, found)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _load() -> None:
    import pytest

    # A run loads the plugins as every run does: what they assert is rewritten.
    with tempfile.TemporaryDirectory() as empty, redirect_stdout(sys.stderr):
        ended = pytest.main(["-qqs", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", empty])
    assert ended is pytest.ExitCode.NO_TESTS_COLLECTED

    from pytest_fxregion.device import virtual

    virtual.load()
    with virtual.activate("h100"):  # modules ask about the device while they are imported
        for name in ("compile_fx", "lowering", "select_algorithm"):
            import_module(f"torch._inductor.{name}")
        import_module("pytest_fxregion.harness")
    # As in the suite's own process, for the reason that its conftest gives.
    vars(import_module("torch._dynamo.guards"))["profile_guard_manager"] = lambda *_: 0.0


def _run(request: dict[str, object], found: list[str]) -> None:
    """Be the command, and end."""
    words, folder, environment = request["words"], request["folder"], request["environment"]
    assert isinstance(words, list)
    assert isinstance(folder, str)
    assert isinstance(environment, dict)
    hidden = os.environ["CUDA_VISIBLE_DEVICES"]  # as the virtual device has it while it is loaded
    status: object = 1
    try:
        written = os.open(str(request["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment, PWD=folder, CUDA_VISIBLE_DEVICES=hidden)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job of a shell
        tempfile.tempdir = None  # asked anew in this environment
        sys.path[:] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path += found
        invalidate_caches()
        if words[0] == "python":
            sys.path.insert(0, folder)
            sys.argv = words[2:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            status = 0
        else:
            sys.argv = words
            (script,) = entry_points(group="console_scripts", name=words[0])
            status = script.load()()
    except SystemExit as ended:
        status = ended.code or 0
        if isinstance(status, str):
            print(status, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve()
