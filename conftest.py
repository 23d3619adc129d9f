"""The suite's own settings."""

import gc
import os
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
from hypothesis import HealthCheck, settings

# Compiles go on beside: how long an example takes says nothing about it.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """Let xdist's workers share the process that the suite's own projects run in."""
    if getattr(config.option, "numprocesses", None):
        from tests.forks import SHARED, offer_here

        os.environ[SHARED] = offer_here()


def pytest_collection_finish() -> None:
    """Leave out what takes time and tells a test nothing.

    The collector need not look at the million objects that are there by now.  torch times the
    guards of each graph, for which it empties the processor's caches, in 20 ms.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    if "torch" in sys.modules:
        vars(import_module("torch._dynamo.guards"))["profile_guard_manager"] = lambda *_: 0.0


gc.disable()  # until all modules of tests are imported


@pytest.fixture(autouse=True)
def text_of_every_graph_agrees_with_torchs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the text of what a test compiled against ``print_readable``, once the test is over."""
    if "fxregion" not in request.fixturenames:
        yield
        return
    harness = request.getfixturevalue("fxregion")
    yield
    from tests.unit.readable.agreement import assert_agrees, without_tags

    for run in harness.runs:
        for graph in run.graphs:
            for record in graph.stages():
                assert_agrees(without_tags(record.graph))
                for region in record.regions:
                    assert_agrees(without_tags(region.body))
