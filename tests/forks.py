"""A process that has loaded what every command loads, and runs each command in a fork of itself.

``pytest`` and ``python -m …`` take seconds to import torch and Inductor, and often little else.
Here both are imported once, with the virtual device in place, and nothing is compiled before the
fork.  A command that runs xdist finds its workers here too, as forks.  What depends on how an
interpreter starts needs a process of its own: a hash seed, a setting that torch reads while it is
imported, whether it is imported at all.

This file is a program that imports nothing of ``tests``, which is a package of other projects as
well; :class:`Forks` talks to it, through a socket that xdist's workers of one run share.  A request
is a line of JSON with the three standard files of the command; the answers are the number of its
process and, once that has ended, its exit status.
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
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

SHARED = "FXREGION_FORKS"  # the variable with the socket's path
_ROOM = 1 << 20  # of bytes, for a request
# What Inductor imports when it is first used.
_USED_BY_MANY = (
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch._inductor.select_algorithm",
    "torch.distributed.tensor.experimental",
    "triton.experimental.gluon",
)


def offer(environment: Mapping[str, str]) -> str:
    """Return the path of a socket; the process starts when something connects to it.

    It imports torch with this environment, and lives as long as this process does.
    """
    folder = tempfile.mkdtemp(prefix="forks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()

    def start() -> None:
        select.select([listener], [], [])
        process = subprocess.Popen(
            # -P: what is beside this file is not what commands import.
            [sys.executable, "-P", __file__, str(listener.fileno())],
            env=dict(environment),
            stdin=subprocess.PIPE,  # at whose end it ends
            pass_fds=[listener.fileno()],
        )
        listener.close()  # where it fails, those who wait are told
        atexit.register(process.communicate)

    Thread(target=start, daemon=True).start()
    return path


@dataclass(frozen=True)
class Fork:
    """A command that was started."""

    process: int
    _connection: socket.socket

    def wait(self) -> int:
        """Return its exit status, once it has ended."""
        with self._connection as connection:
            status = connection.recv(_ROOM)
        assert status, "the process of all forks has ended"
        return int(status)


class Forks:
    """The process, seen from a test."""

    def __init__(self, path: str) -> None:
        self._path = path

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> tuple[int, str]:
        """Run ``pytest …`` or ``python -m …``; return its exit status and all that it printed."""
        with tempfile.TemporaryFile() as output:
            status = self.start(output.fileno(), words, folder, environment).wait()
            output.seek(0)
            return status, output.read().decode("utf-8", "replace")

    def start(
        self, output: int, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Fork:
        """Start a command that prints into a file or a terminal."""
        with Path(os.devnull).open() as nothing:
            return self._start([nothing.fileno(), output, output], words, folder, environment)

    def _start(
        self,
        files: Sequence[int],
        words: Sequence[str],
        folder: Path | str,
        environment: Mapping[str, str],
    ) -> Fork:
        request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._path)
        socket.send_fds(connection, [json.dumps(request).encode()], files)
        process = connection.recv(_ROOM)
        assert process, f"the process of all forks ended before {words} did"
        return Fork(int(process), connection)

    def start_worker(self, arguments: list[str], execmodel: Any) -> Any:
        """Start what xdist starts for a worker; return it as execnet sees such a process."""
        from execnet.gateway_base import Popen2IO

        stdin, told = os.pipe()
        heard, stdout = os.pipe()
        words = ["python", *arguments[-2:]]
        fork = self._start([stdin, stdout, 2], words, os.getcwd(), os.environ)
        os.close(stdin)
        os.close(stdout)

        class Worker(Popen2IO):
            def wait(self) -> int:
                return fork.wait()

            def kill(self) -> None:
                with suppress(ProcessLookupError):
                    os.kill(fork.process, signal.SIGKILL)

        return Worker(os.fdopen(told, "wb"), os.fdopen(heard, "rb"), execmodel)


@cache
def forks() -> Forks:
    """Return the process that all tests of this run share."""
    return Forks(os.environ.get(SHARED) or offer_here())


def offer_here() -> str:
    """Offer a process with this one's environment, without what tells of the run."""
    # Imported here: as a program this file has no package around it.
    from tests.plugin.pytest_process import SOURCE_TREE, clean_environment

    return offer({**clean_environment(), "PYTHONPATH": str(SOURCE_TREE)})


def serve(listener: socket.socket) -> None:
    """Run commands until what this process was started by has ended."""
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    gc.disable()
    _load()
    gc.enable()
    gc.freeze()  # a million objects that no fork has to look at, or copy
    found = [each for each in sys.path if each not in own]
    running: dict[int, tuple[int, socket.socket]] = {}
    while sys.stdin.fileno() not in (
        ready := select.select([sys.stdin.fileno(), listener.fileno(), *running], [], [])[0]
    ):
        for ended in running.keys() & ready:
            process, connection = running.pop(ended)
            os.close(ended)
            _, status = os.waitpid(process, 0)
            with connection, suppress(OSError):  # a test that does not wait for the command
                connection.send(b"%d" % os.waitstatus_to_exitcode(status))
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            message, files, _, _ = socket.recv_fds(connection, _ROOM, 3)
            process = os.fork()
            if process == 0:
                path = listener.getsockname()
                for each in (listener, connection, *(other for _, other in running.values())):
                    each.close()
                _run(json.loads(message), files, found, path)
            for file in files:
                os.close(file)
            connection.send(b"%d" % process)
            running[os.pidfd_open(process)] = process, connection


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
    # What is asked once in a process: every module for its file, what is installed for its hash.
    inspect.getmodule(compile("", "no file", "exec"))
    import_module("triton.runtime.cache").triton_key()
    import_module("torch._inductor.codecache").torch_key()
    import_module("pytest_fxregion._torch.artifacts").compiler_stamp()
    for each in weakref.finalize._registry:  # type: ignore[attr-defined]
        each.atexit = False  # torch takes its libraries apart, for seconds


def _run(
    request: dict[str, Any], files: Sequence[int], found: list[str], own_path: str
) -> NoReturn:
    """Be the command, with its files, in its folder and environment, and end."""
    hidden = os.environ["CUDA_VISIBLE_DEVICES"]  # as the virtual device has it while it is loaded
    status: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        folder, environment = request["folder"], request["environment"]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment, PWD=folder, CUDA_VISIBLE_DEVICES=hidden)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job of a shell
        tempfile.tempdir = None  # asked anew in this environment
        sys.path[:] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path += found
        invalidate_caches()
        # xdist starts its workers through execnet.
        starts = Forks(own_path).start_worker
        vars(import_module("execnet.gateway_io"))["Popen2IOMaster"] = starts
        status = _obey(request["words"])
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


def _obey(words: list[str]) -> object:
    """Be ``pytest …``, ``python -m …`` or ``python -c …``; return the exit status."""
    if words[0] == "python":
        what, sys.argv = words[1], words[2:]
        if what == "-m":
            sys.path.insert(0, os.getcwd())
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, "")
            code, sys.argv[0] = sys.argv[0], what
            exec(code, {"__name__": "__main__"})
        return 0
    sys.argv = words
    (script,) = entry_points(group="console_scripts", name=words[0])
    return script.load()()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # nothing is left that has to be taken apart
