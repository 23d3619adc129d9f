"""The native library: from its C++ sources to a shared object in a private cache, once per torch.

In: the sources beside this file, the torch that is installed, the system's C++ compiler.
Out: the path of the library.  torch is looked at on disk and never imported.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pytest_fxregion.cache import private_folder
from pytest_fxregion.errors import DeviceError

SOURCES: Final = Path(__file__).parent / "native"
_FLAGS: Final = ("-fPIC", "-O1", "-std=c++20", "-fvisibility=hidden")


def torch_folder() -> Path:
    """The folder of the installed torch, found without importing it.

    Raises :class:`DeviceError` where torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise DeviceError("the virtual CUDA device needs torch, which is not installed here")
    return Path(spec.origin).parent


def has_triton() -> bool:
    """Whether Triton, whose interpreter runs the kernels, is installed."""
    return importlib.util.find_spec("triton") is not None


def torch_build(torch: Path) -> str:
    """Version and commit of a torch installation, as its own ``version.py`` states them."""
    text = (torch / "version.py").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(__version__|git_version)[^=\n]*= *['\"]([^'\"]+)['\"]", text, re.M))
    return f"{found.get('__version__', 'unknown')} {found.get('git_version', 'unknown')}"


def compiler() -> list[str] | None:
    """The command of the C++ compiler: ``$CXX``, else the first of g++, clang++ and c++ found."""
    named = os.environ.get("CXX")
    if named:
        return shlex.split(named)
    for name in ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path is not None:
            return [path]
    return None


def cache_folder() -> Path:
    """The private folder that built libraries are kept in, made if need be."""
    return private_folder("virtual-cuda")


def library_path(torch: Path, command: list[str], folder: Path) -> Path:
    """Where the library for this torch, these sources and this compiler lies, built or not."""
    digest = hashlib.sha256()
    for part in (torch_build(torch), platform.machine(), " ".join(command), " ".join(_FLAGS)):
        digest.update(part.encode() + b"\0")
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".cpp", ".h"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return folder / f"virtual_cuda-{digest.hexdigest()[:24]}.so"


def build(progress: Callable[[str], None] | None = None) -> Path:
    """Path of the library, built first if this torch has none yet (about 30 s on two cores).

    ``progress`` gets one line when, and only when, something is built; standard error by default.
    Several processes may call this at once: one builds, the others wait for it.  Raises
    :class:`DeviceError` naming the compiler's command and its message when it cannot be built.
    """
    torch = torch_folder()
    command = compiler()
    if command is None:
        raise DeviceError(
            "the virtual CUDA device needs a C++ compiler, and none of g++, clang++, c++ was "
            "found. Install one, or name it in CXX, or use --fxregion-device=cpu."
        )
    folder = cache_folder()
    library = library_path(torch, command, folder)
    if library.exists():
        return library
    with _locked(folder / f"{library.stem}.lock"):
        if not library.exists():
            say = progress if progress is not None else _say_on_stderr
            say("fxregion: building the virtual CUDA device for this torch (once, about 30 s)")
            _compile(torch, command, library)
    return library


def _say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(torch: Path, command: list[str], library: Path) -> None:
    include = torch / "include"
    # The C++ ABI of libstdc++ strings has to be torch's; every wheel since 2.6 has the new one.
    compile_flags = [
        *_FLAGS,
        f"-I{include}",
        f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}",
    ]
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="building-") as scratch:
        objects = []
        running = []
        for source in sorted(SOURCES.glob("*.cpp")):
            target = Path(scratch) / f"{source.stem}.o"
            objects.append(str(target))
            line = [*command, *compile_flags, "-c", str(source), "-o", str(target)]
            running.append((line, _start(line)))
        for line, process in running:
            _finish(line, process)
        partial = Path(scratch) / library.name
        line = [*command, "-shared", *objects, f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu"]
        line += ["-o", str(partial)]
        _finish(line, _start(line))
        # Whole or not at all: another process may be about to load it.
        os.replace(partial, library)


def _start(line: list[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise DeviceError(
            f"cannot run the C++ compiler: {error.strerror}. The command was:\n  {shlex.join(line)}"
        ) from error


def _finish(line: list[str], process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate()
    if process.returncode != 0:
        shown = "\n".join(f"  {row}" for row in output.strip().splitlines()[:20])
        raise DeviceError(
            "the virtual CUDA device could not be built for this torch. The command was:\n"
            f"  {shlex.join(line)}\nand it said:\n{shown}"
        )
