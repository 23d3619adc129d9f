from __future__ import annotations

from pathlib import Path

import pytest
from artifacts import Artifacts


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)
