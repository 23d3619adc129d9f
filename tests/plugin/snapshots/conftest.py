from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.snapshots.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(params=[pytest.param(False, id="serial"), pytest.param(True, id="xdist")])
def xdist(request: pytest.FixtureRequest) -> bool:
    """Whether the tests of the project run in two worker processes."""
    return bool(request.param)
