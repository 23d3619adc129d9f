"""The private folder of this user for what is expensive to make and safe to lose."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path

from pytest_fxregion.errors import DeviceError


def private_folder(name: str) -> Path:
    """Return the folder ``name`` in the cache, made if need be, that no other user can enter.

    The cache is ``$FXREGION_CACHE_DIR``, else ``$XDG_CACHE_HOME/pytest-fxregion`` or
    ``~/.cache/pytest-fxregion``.  What is loaded into the process from there must not be another
    user's to write, so a folder that is not ours, or that others can enter, is a
    :class:`~pytest_fxregion.errors.DeviceError`.
    """
    named = os.environ.get("FXREGION_CACHE_DIR")
    if named:
        cache = Path(named)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = Path(base) / "pytest-fxregion"
    folder = cache / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
    except OSError as error:
        raise DeviceError(
            f"cannot make the cache folder {folder}: {error.strerror}. "
            "Set FXREGION_CACHE_DIR to a folder that you can write."
        ) from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise DeviceError(
            f"{folder} is not a folder of this user; nothing will be loaded from it. "
            "Remove it, or set FXREGION_CACHE_DIR to a folder of your own."
        )
    if stat.S_IMODE(info.st_mode) & 0o077:
        raise DeviceError(
            f"{folder} can be entered by other users (mode {stat.S_IMODE(info.st_mode):04o}); "
            f"nothing will be loaded from it. Run: chmod 700 {shlex.quote(str(folder))}"
        )
    return folder


def own_subfolder(parent: Path, name: str) -> Path | None:
    """Make the folder ``name`` in ``parent`` if need be; None if others could change what is in it.

    It must be this user's alone, and nobody else may be able to put another one in its place.
    """
    folder = parent.resolve() / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
        own = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()
        if own and not info.st_mode & 0o077 and all(map(_is_fixed, folder.parents)):
            return folder
    except OSError:
        pass
    return None


def _is_fixed(folder: Path) -> bool:
    """Whether only this user (or root) can rename what this user has put into the folder."""
    info = folder.lstat()
    if info.st_uid not in (0, os.getuid()):
        return False
    others = info.st_mode & 0o022
    if others == 0o020 and info.st_gid == os.getgid():
        # Where each user has a group of that name alone, folders may be its to write.
        group = grp.getgrgid(info.st_gid)
        if group.gr_name == pwd.getpwuid(os.getuid()).pw_name and not group.gr_mem:
            others = 0
    return not others or bool(info.st_mode & stat.S_ISVTX)
