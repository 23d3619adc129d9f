"""Two tests, one file of snapshots: in, the collected tests; out, who clashes with a file left out.

Tests that were all collected are held against each other in :mod:`pytest_fxregion.snapshots.names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxregion.snapshots import names
from pytest_fxregion.snapshots.settings import Settings, without_repetition


def clashes_with_files_left_out(
    items: Sequence[pytest.Item], fixtures: frozenset[str], settings: Settings
) -> Iterator[tuple[str, str]]:
    """Yield ids of a test, and of the one whose snapshots it would overwrite.

    Where only one of two such files is given to pytest the other one is read as text: it is one if
    it names our fixtures and defines a function of the test's name.
    """
    collected = {item.path for item in items}
    texts: dict[Path, tuple[Path, str] | None] = {}
    for item in items:
        if not fixtures.intersection(getattr(item, "fixturenames", ())):
            continue
        if item.path not in texts:
            twin = names.twin_of(item.path, settings.rootdir, settings.tests_root)
            is_left_out = twin is not None and twin not in collected
            texts[item.path] = (twin, _text(twin)) if twin is not None and is_left_out else None
        found = texts[item.path]
        function = re.escape(getattr(item, "originalname", None) or item.name)
        if found and "fxregion" in found[1] and re.search(rf"\bdef {function}\b", found[1]):
            file, test = found[0].relative_to(settings.rootdir), item.nodeid.partition("::")[2]
            yield without_repetition(item, item.nodeid), f"{file.as_posix()}::{test}"


def why_they_clash(nodeid: str, other: str) -> str:
    """Say why two tests have one file of snapshots, and what to do."""
    one, two = (PurePosixPath(test.partition("::")[0]) for test in (nodeid, other))
    if names.clash_key(one, "") != names.clash_key(two, ""):
        # a.py and tests/a.py: other folders, though no name is like another but for its case.
        return "(the folder of all tests is left out of it): rename one of the files"
    return (
        "(names are compared without case, as some file systems do): rename one of the tests, "
        "or give its parameters other ids"
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
