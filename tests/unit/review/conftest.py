from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.review.artifacts import Artifacts


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)
