"""The private folder of this user for what is expensive to make and safe to lose."""

from __future__ import annotations

import os
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
