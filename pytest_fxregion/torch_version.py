"""Which torch is installed, and is it one we know?  Read from its metadata, not imported."""

from __future__ import annotations

from functools import cache
from importlib import metadata

from packaging.version import InvalidVersion, Version

from pytest_fxregion.errors import FxRegionError

OLDEST = Version("2.11")
NEWEST_TESTED = Version("2.15")
# What torch's CUDA wheels of PyPI require; its CPU builds require none, and pip takes the newest.
TRITON_OF = {"2.11": "3.6", "2.12": "3.7", "2.13": "3.7", "2.14": "3.8", "2.15": "3.9"}


@cache  # a wheel's metadata are a long letter, which takes 10 ms to read
def installed() -> str:
    """Return the version of the installed torch.  Raises FxRegionError if there is none."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise FxRegionError(
            "--fxregion needs torch, which is not installed: pip install 'torch>=2.11'"
        ) from None


def require() -> None:
    """Raise FxRegionError if torch is missing or too old."""
    if _release(installed()) < OLDEST:
        raise FxRegionError(
            f"--fxregion needs torch {OLDEST} or newer, but {installed()} is installed: "
            f"pip install 'torch>={OLDEST}'"
        )


def newer_than_tested() -> str | None:
    """Return a line for the header if this torch is newer than every one we were tested with."""
    if _release(installed()) <= NEWEST_TESTED:
        return None
    return f"torch {installed()} is newer than the newest tested, {NEWEST_TESTED}"


def other_triton() -> str | None:
    """Return a line for the header if the installed Triton is another torch's."""
    release = str(_release(installed()))
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None
    wanted = TRITON_OF.get(release)
    if wanted is None or str(_release(triton)) == wanted:
        return None
    return (
        f"Triton {triton} is not the one that belongs to torch {release}: "
        f"pip install 'triton=={wanted}.*'"
    )


def _release(version: str) -> Version:
    """The minor release that a version belongs to, nightlies and local builds included."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        raise FxRegionError(
            f"cannot tell how old torch {version} is: its version is not one that pip knows"
        ) from None
    return Version(f"{parsed.major}.{parsed.minor}")
