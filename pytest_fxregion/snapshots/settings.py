"""What one run may do with snapshots, decided once, before any test is collected."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxregion.snapshots import names


@dataclass(frozen=True)
class Settings:
    """The options of a run, resolved.

    Attributes:
        root: the folder that holds the snapshots.
        rootdir: pytest's root folder; paths in messages are relative to it.
        tests_root: the folder that is left out of a snapshot's path.
        device: what tests run on, in words.
        device_variants: the device's variants, most specific first; none where it owns the base.
        torch_version: for the variant of torch's minor version; ``None``: no such variants.
        record: the variant that new values are written to, named by the user.
        update: the user asked to accept new values and to remove unused files.
        may_write: false under CI unless it was asked for.
        command: the options that repeat this run's configuration.
        artifacts: where new values and whole diffs of failing comparisons go.

    """

    root: Path
    rootdir: Path
    tests_root: Path
    device: str
    device_variants: tuple[str, ...]
    torch_version: str | None
    record: str | None
    update: bool
    may_write: bool
    command: tuple[str, ...]
    artifacts: Path | None

    def variants(self, device: Sequence[str]) -> tuple[str, ...]:
        """Return the variants that apply on a device with these variants, most specific first."""
        return names.all_variants(device, torch_version=self.torch_version, record=self.record)

    def removable(self, device: Sequence[str]) -> frozenset[str | None]:
        """Return the variants (``None``: the base) whose files a test there may call unused.

        A run never removes what belongs to another variant, and nothing at all while it records
        a variant that the user named: such a run usually sees only a part of the suite.
        """
        if self.record:
            return frozenset()
        base: tuple[None, ...] = () if device else (None,)
        return frozenset((*self.variants(device), *base))

    def elsewhere(self) -> Path | None:
        """Return the folder of the repository with snapshots, if pytest's root folder has none.

        Without an ini file pytest's root folder is where the tests are that it was given.
        """
        if self.root.is_dir() or not self.root.is_relative_to(self.rootdir):
            return None
        above = list(self.rootdir.parents)
        tops = [k for k, folder in enumerate(above) if (folder / ".git").exists()]
        way = self.root.relative_to(self.rootdir)
        for folder in above[: tops[0] + 1] if tops else ():
            if next((folder / way).glob(f"**/*{names.SUFFIX}"), None) is not None:
                return folder
        return None

    def shown(self, path: Path) -> str:
        """Return ``path`` as messages show it: relative to pytest's root folder where it can be."""
        inside = self.inside_rootdir(path)
        return path.relative_to(self.rootdir).as_posix() if inside else str(path)

    def inside_rootdir(self, path: Path) -> bool:
        """Say whether ``path`` is in pytest's root folder: it may have been given with ``..``."""
        return path.is_relative_to(self.rootdir) and ".." not in path.parts


# The parameter by which pytest-repeat repeats a test, and its part of the id.
_REPETITION = "__pytest_repeat_step_number"
_REPETITION_ID = re.compile(r"(^|-)\d+-\d+$")


@dataclass(frozen=True)
class Place:
    """Where the snapshots of a test are: folder below the root, and stem of the test's files."""

    folder: PurePosixPath
    stem: str
    function: str
    """The stem without parameters: what the parametrised tests of one function share."""


def place_of(item: pytest.Item, settings: Settings) -> Place:
    """Return where ``item``'s snapshots are.

    Raises:
        SnapshotError: when the test's file lies outside pytest's root folder.

    """
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    function = getattr(item, "originalname", None) or item.name
    return Place(
        names.folder_for(item.path, settings.rootdir, settings.tests_root),
        names.encode_test(".".join([*classes, without_repetition(item, item.name)])),
        names.encode_test(".".join([*classes, function])),
    )


def without_repetition(item: pytest.Item, name: str) -> str:
    """Return a test's name, or its node id, without the number that pytest-repeat adds.

    All repetitions of a test have the same snapshots: ``test_mm[bf16-2-5]``, the second of five,
    has those of ``test_mm[bf16]``.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None or _REPETITION not in callspec.params:
        return name
    kept, _, _ = name.removesuffix("]").rpartition("[")
    parameters = name[len(kept) + 1 : -1]
    number = _REPETITION_ID.search(parameters)
    if number is None:
        return name
    others = parameters[: number.start()]
    # An empty id is one, too: test_mm[-2-5] is the second of test_mm[].
    return f"{kept}[{others}]" if others or number[1] else kept


def under_ci() -> bool:
    """Say whether this is a CI job, by the variable that all the common services set."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}
