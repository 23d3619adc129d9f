"""A process that has loaded what every command loads, and runs each command in a fork of itself.

``pytest`` and ``python -m …`` take seconds to import torch and Inductor, and often little else.
Here both are imported once, with the virtual device in place, and nothing is compiled before the
fork.  A command that runs xdist finds its workers here too, as forks.  What depends on how an
interpreter starts needs a process of its own: a hash seed, a setting that torch reads while it is
imported, whether it is imported at all.

This file is a program that imports nothing of ``tests``, which is a package of other projects as
well; :class:`Forks` talks to it.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from importlib import import_module, invalidate_caches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

# What Inductor imports when it is first used.
_USED_BY_MANY = (
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch._inductor.select_algorithm",
    "torch.distributed.tensor.experimental",
    "triton.experimental.gluon",
)
_ROOM = 1 << 20  # of bytes, for the environment of a worker


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
    gc.disable()
    _load()
    gc.enable()
    gc.freeze()  # a million objects that no fork has to look at, or copy
    found = [each for each in sys.path if each not in own]
    for line in sys.stdin:
        keeper = os.fork()
        if keeper == 0:
            _keep(json.loads(line), found, answers)
        _, status = os.waitpid(keeper, 0)
        assert status == 0, f"the process that keeps the forks of {line} ended with {status}"


def _load() -> None:
    import pytest

    # A run loads the plugins as every run does: what they assert is rewritten.
    options = ["-qqs", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "hypothesis"]
    with tempfile.TemporaryDirectory() as empty, redirect_stdout(sys.stderr):
        ended = pytest.main([*options, empty])
    assert ended is pytest.ExitCode.NO_TESTS_COLLECTED

    import pytest_fxregion
    from pytest_fxregion.device import virtual

    virtual.load()
    with virtual.activate("h100"):  # modules ask about the device while they are imported
        for name in _USED_BY_MANY:
            import_module(name)
        for each in pkgutil.walk_packages(pytest_fxregion.__path__, "pytest_fxregion."):
            if not each.name.endswith("__main__"):
                import_module(each.name)
    # As in the suite's own process, for the reason that its conftest gives.
    vars(import_module("torch._dynamo.guards"))["profile_guard_manager"] = lambda *_: 0.0
    inspect.getmodule(compile("", "no file", "exec"))  # looks at every module, once
    for each in weakref.finalize._registry:  # type: ignore[attr-defined]
        each.atexit = False  # torch takes its libraries apart, for seconds


def _keep(request: dict[str, Any], found: list[str], answers: Any) -> NoReturn:
    """Run a command in a fork, xdist's workers that it asks for in others; write its status."""
    asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        answers.close()
        asked.close()
        files = [os.open(os.devnull, os.O_RDONLY)]
        files += 2 * [os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]
        _run(partial(_command, asking, request["words"]), request, files, found)
    asking.close()
    ended = os.pidfd_open(child)
    # A worker's parent is this process; what is meant for that of a real one is the command's.
    signal.signal(signal.SIGINT, lambda number, _: os.kill(child, number))
    while ended not in select.select([asked.fileno(), ended], [], [])[0]:
        message, files, _, _ = socket.recv_fds(asked, _ROOM, 4)
        if not message:  # the command closed its end: it is about to end
            break
        worker = os.fork()
        if worker == 0:
            os.close(ended)
            asked.close()
            answers.close()
            _run(_worker, json.loads(message), files[:3], found)
        os.write(files[3], b"%d\n" % worker)
        for each in files:
            os.close(each)
    _, status = os.waitpid(child, 0)
    answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
    answers.flush()
    os._exit(0)


def _run(
    work: Callable[[], object], request: dict[str, Any], files: Sequence[int], found: list[str]
) -> NoReturn:
    """Do a process's work with its files, in its folder and environment, and end."""
    hidden = os.environ["CUDA_VISIBLE_DEVICES"]  # as the virtual device has it while it is loaded
    status: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        folder, environment = request["folder"], request["environment"]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment, PWD=folder, CUDA_VISIBLE_DEVICES=hidden)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job of a shell
        tempfile.tempdir = None  # asked anew in this environment
        sys.path[:] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path += found
        invalidate_caches()
        status = work()
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


def _command(asking: socket.socket, words: list[str]) -> object:
    """Be ``pytest …`` or ``python -m …``."""
    vars(import_module("execnet.gateway_io"))["Popen2IOMaster"] = partial(_Worker, asking)
    if words[0] != "python":
        sys.argv = words
        (script,) = entry_points(group="console_scripts", name=words[0])
        return script.load()()
    sys.path.insert(0, os.getcwd())
    sys.argv = words[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    return 0


def _worker() -> int:
    """Be what xdist starts for a worker: an interpreter that is told by a line what to do."""
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    exec(eval(sys.stdin.readline()))
    return 0


class _Worker:
    """A worker, seen from the run that asked for it, as execnet sees a process that it started."""

    def __init__(self, asking: socket.socket, _arguments: list[str], execmodel: Any) -> None:
        from execnet.gateway_base import Popen2IO

        stdin, told = os.pipe()
        heard, stdout = os.pipe()
        self._life, alive = os.pipe()
        message = json.dumps({"folder": os.getcwd(), "environment": dict(os.environ)})
        socket.send_fds(asking, [message.encode()], [stdin, stdout, 2, alive])
        for each in (stdin, stdout, alive):
            os.close(each)
        self._process = int(os.read(self._life, 20))
        io = Popen2IO(os.fdopen(told, "wb"), os.fdopen(heard, "rb"), execmodel)
        self.execmodel = execmodel
        self.read, self.write = io.read, io.write
        self.close_read, self.close_write = io.close_read, io.close_write

    def wait(self) -> None:
        os.read(self._life, 1)  # held open by the worker, which writes nothing

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)


if __name__ == "__main__":
    serve()
