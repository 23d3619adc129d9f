"""Writing and removing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file as a whole or not at all: UTF-8, LF, in place of what was there.

    A reader, a second run on the same folder, a full disk or a crash at any moment sees the old
    file or the new one.
    """
    path = Path(os.path.realpath(path))  # a symlink stays one
    temporary = path.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.tmp")
    for attempt in (1, 2):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            break
        except FileNotFoundError:
            if attempt == 2:  # another run has removed the empty folder between the two calls
                raise
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove(path: Path, root: Path) -> None:
    """Remove a snapshot file, and the folders below ``root`` that it leaves empty."""
    path.unlink(missing_ok=True)
    prune(path.parent, root)


def prune(folder: Path, root: Path) -> None:
    """Remove ``folder`` and those around it, below ``root``, as far as they are empty."""
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone already
            return
        folder = folder.parent
