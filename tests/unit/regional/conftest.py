from __future__ import annotations

import pytest
import torch._inductor
from annotated_graphs import Compiles

from pytest_fxregion.regional.artifacts import ARTIFACTS


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Compiles:
    """What was compiled; nothing really is."""
    fake = Compiles()
    monkeypatch.setattr(torch._inductor, "standalone_compile", fake)
    ARTIFACTS.reset()
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    return fake
