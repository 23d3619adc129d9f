"""The two fixtures.  They import torch only when a test asks for them under ``--fxregion``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from pytest_fxregion.harness import FxRegion


@pytest.fixture
def fxregion(request: pytest.FixtureRequest) -> Iterator[FxRegion]:
    """Compile functions with their annotated regions and check them; see ``docs``.

    Calling it returns a :class:`pytest_fxregion.harness.RegionRun`; its factories (``randn``,
    ``zeros``…) make inputs on the device under test.
    """
    from pytest_fxregion import session

    with session.harness(request) as harness:
        yield harness


@pytest.fixture
def fxregion_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Plain syrupy style: ``assert run.forward == fxregion_snapshot``."""
    from pytest_fxregion import session

    return session.snapshot_assertion(request)
