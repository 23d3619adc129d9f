"""The garbage collector rests while torch is imported, and is then as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pytest_fxregion.harness import FxRegion
from pytest_fxregion.importing import collector_paused


@pytest.fixture(autouse=True)
def enabled_afterwards() -> Iterator[None]:
    yield
    gc.enable()


def test_it_rests_inside_alone() -> None:
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_import_that_fails() -> None:
    with pytest.raises(ImportError), collector_paused():
        raise ImportError
    assert gc.isenabled()


def test_whoever_switched_it_off_finds_it_so() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_test_runs_with_it(fxregion: FxRegion) -> None:
    assert fxregion
    assert gc.isenabled()
