"""Names of snapshot files: a test's place in, a path below the snapshot folder out.

Layout: ``<path of the test file without tests/ and .py>/<test>[-<extra>][@variant].fx.txt``.

Every name is percent-encoded, so that two names never share a file by accident (dropping
characters, as syrupy does, makes ``a/b`` and ``ab`` the same), and capped in *bytes*, so that it
fits the smallest limit in use: 143 bytes a component on eCryptfs.  What is cut ends in ``~`` and
ten hex digits of its SHA-256; ``~`` itself is always encoded, so the mark is unambiguous.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from pytest_fxregion.errors import SnapshotError

SUFFIX = ".fx.txt"
MAX_COMPONENT_BYTES = 143
MAX_TEST_BYTES = 88
MAX_EXTRA_BYTES = 24
# "test" + "-" + "extra" + "@" + variant + suffix is at most MAX_COMPONENT_BYTES.
MAX_VARIANT_BYTES = MAX_COMPONENT_BYTES - MAX_TEST_BYTES - MAX_EXTRA_BYTES - len(SUFFIX) - 2

_DIGEST = 10
_UNSAFE = re.compile(r'[\x00-\x1f\x7f%/\\?*:|"<>@~\ud800-\udfff]')
_UNSAFE_TEST = re.compile(_UNSAFE.pattern + r"|\](?!\Z)")
_VARIANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_OF_TORCH_OR_CPU = re.compile(r"(cpu-)?torch\d+\.\d+|cpu")
_STEM = re.compile(r"(?P<test>[^-\[]*(?:\[[^\]~]*(?:\]|~[0-9a-f]{10}))?)(?:-(?P<extra>.*))?")


def encode(name: str, limit: int, unsafe: re.Pattern[str] = _UNSAFE) -> str:
    """Return ``name`` as a file name component of at most ``limit`` UTF-8 bytes.

    Distinct names (after Unicode NFC, which file systems apply anyway) give distinct results.
    Leading and trailing dots and spaces are encoded too: some file systems drop them.
    """
    name = unicodedata.normalize("NFC", name)
    encoded = unsafe.sub(lambda match: _percent(match[0]), name)
    if encoded[:1] in {".", " "}:
        encoded = _percent(encoded[0]) + encoded[1:]
    if encoded[-1:] in {".", " "}:
        encoded = encoded[:-1] + _percent(encoded[-1])
    raw = encoded.encode()
    if len(raw) <= limit:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    kept = raw[: limit - _DIGEST - 1].decode(errors="ignore")
    kept = re.sub(r"%[0-9A-F]?$", "", kept)  # half an escape would decode to something else
    return f"{kept}~{digest}"


def encode_test(name: str) -> str:
    """Return the part of a file's name that belongs to the test, e.g. ``TestBlock.test_mm[a]``.

    A ``]`` that does not end the name is encoded, for :func:`split_stem`.
    """
    return encode(name, MAX_TEST_BYTES, _UNSAFE_TEST)


def encode_extra(index: int | str) -> str:
    """Return the part of a file's name for one of several snapshots of a test.

    A number is the position of an unnamed snapshot among all of the test's (0, the first, has no
    part of its own: ``""``).
    A name that is only digits is encoded, so that ``name="1"`` is not the second unnamed one.
    """
    if isinstance(index, int):
        return str(index) if index else ""
    if index.isdecimal():
        head = "".join(f"%{byte:02X}" for byte in index[0].encode())
        return head + encode(index[1:], MAX_EXTRA_BYTES - len(head))
    return encode(index, MAX_EXTRA_BYTES)


def split_stem(stem: str) -> tuple[str, str]:
    """Split a file's stem (no variant, no suffix) into its test part and its extra part."""
    match = _STEM.fullmatch(stem)
    return (match["test"], match["extra"] or "") if match else (stem, "")


def check_variant(name: str) -> str:
    """Return ``name`` if it can name a variant.

    Raises:
        SnapshotError: for a name with characters other than letters, digits and ``. _ + -``, or
            longer than :data:`MAX_VARIANT_BYTES`.

    """
    if _VARIANT.fullmatch(name) is None or len(name) > MAX_VARIANT_BYTES:
        raise SnapshotError(
            f"{name!r} cannot name a snapshot variant: use letters, digits and . _ + -, "
            f"at most {MAX_VARIANT_BYTES} characters"
        )
    return name


def check_recorded(name: str, own: Sequence[str]) -> None:
    """Refuse to record under a name that runs on another device, or with another torch, read.

    ``own`` are the variants that a run like this one reads without being asked.

    Raises:
        SnapshotError: ``name`` is a torch version's or the CPU's, and not one of ``own``.

    """
    if _OF_TORCH_OR_CPU.fullmatch(name) and name not in own:
        raise SnapshotError(
            f"--fxregion-record={name} names a variant of another device or torch, which this "
            f"run's graphs are not of; this run's own: {', '.join(own)}"
        )


def all_variants(
    device: Sequence[str], *, torch_version: str | None = None, record: str | None = None
) -> tuple[str, ...]:
    """Return the variants that apply, most specific first; the base file comes after all of them.

    Args:
        device: the device's own variants, most specific first; none for CUDA, real or virtual,
            whose values the base files hold.
        torch_version: "2.13.0+cpu" adds the variants of torch's minor version.
        record: the variant that the user named.

    """
    variants = [check_variant(record)] if record else []
    if torch_version:
        of_torch = "torch" + ".".join(torch_version.split(".")[:2])
        variants += [f"{name}-{of_torch}" for name in device] or [of_torch]
    return tuple(dict.fromkeys((*variants, *map(check_variant, device))))


@dataclass(frozen=True)
class FileName:
    """A snapshot file's name, taken apart."""

    test: str
    extra: str
    variant: str | None

    @property
    def stem(self) -> str:
        """The name without variant and suffix."""
        return f"{self.test}-{self.extra}" if self.extra else self.test

    def __str__(self) -> str:
        variant = f"@{self.variant}" if self.variant else ""
        return f"{self.stem}{variant}{SUFFIX}"


def parse_file_name(name: str) -> FileName | None:
    """Take the name of a file apart; ``None`` if it is not a snapshot's."""
    if not name.endswith(SUFFIX) or name.startswith("."):
        return None
    stem, _, variant = name[: -len(SUFFIX)].partition("@")
    test, extra = split_stem(stem)
    return FileName(test, extra, variant or None)


def folder_for(test_file: PurePath, root: PurePath, tests_root: PurePath) -> PurePosixPath:
    """Return the folder, relative to the snapshot folder, for the tests of ``test_file``.

    Raises:
        SnapshotError: when ``test_file`` lies outside ``root``, pytest's rootdir.

    """
    for base in (tests_root, root):
        if test_file.is_relative_to(base):
            parts = test_file.relative_to(base).with_suffix("").parts
            return PurePosixPath(*(encode(part, MAX_COMPONENT_BYTES) for part in parts))
    raise SnapshotError(
        f"{test_file} lies outside the root folder {root}, so its snapshots have no place: "
        "run pytest with a --rootdir that holds it"
    )


def twin_of(test_file: Path, root: Path, tests_root: Path) -> Path | None:
    """Return the other file whose tests' snapshots are in the same folder, if there is one.

    Only the folder of all tests is left out of a folder's name: ``a/test_x.py`` has
    ``tests/a/test_x.py``, and the other way round.
    """
    for base, other in ((tests_root, root), (root, tests_root)):
        if test_file.is_relative_to(base):
            twin = other / test_file.relative_to(base)
            if twin == test_file or not twin.is_file():
                return None
            folders = (folder_for(file, root, tests_root) for file in (test_file, twin))
            return twin if len(set(folders)) == 1 else None
    return None


def clash_key(folder: PurePosixPath, stem: str) -> str:
    """Return a key that is equal for names that one file system or another takes for the same."""
    return unicodedata.normalize("NFKC", f"{folder}/{stem}").casefold()


def clashes(places: Iterable[tuple[str, PurePosixPath, str]]) -> dict[str, str]:
    """Find tests whose snapshots would share a file.

    Args:
        places: of each test its id, folder and stem.

    Returns:
        For each test that clashes, the id of another one that has its name.

    """
    owners: dict[str, str] = {}
    found: dict[str, str] = {}
    for test, folder, stem in places:
        other = owners.setdefault(clash_key(folder, stem), test)
        if other != test:
            found[test] = other
            found.setdefault(other, test)
    return found


def candidates(stem: str, variants: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the files that may hold a value, most specific first, base last."""
    return (*(f"{stem}@{variant}{SUFFIX}" for variant in variants), f"{stem}{SUFFIX}")


def _percent(characters: str) -> str:
    return "".join(f"%{byte:02X}" for byte in characters.encode("utf-8", "surrogatepass"))
