from __future__ import annotations

import pytest
import torch._inductor

from pytest_fxregion.regional.artifacts import ARTIFACTS
from tests.unit.regional.annotated_graphs import Compiles


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Compiles:
    """What was compiled; nothing really is."""
    fake = Compiles()
    monkeypatch.setattr(torch._inductor, "standalone_compile", fake)
    ARTIFACTS.reset()
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    return fake
