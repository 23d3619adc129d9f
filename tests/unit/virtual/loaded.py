"""pytest plugin of the processes that the device's tests run in: loads it before anything else.

A test runs with an H100 active, unless its module says ``ARCHITECTURE = None``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_fxregion.device import virtual

virtual.load()

_rows: list[tuple[str, str, str, str]] = []


@pytest.fixture(scope="module", autouse=True)
def architecture(request: pytest.FixtureRequest) -> Iterator[None]:
    name = getattr(request.module, "ARCHITECTURE", "h100")
    if name is None:
        yield
        return
    with virtual.activate(name):
        yield


@pytest.fixture(autouse=True)
def fresh_state() -> None:
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        file, _, name = report.nodeid.partition("[")[0].partition("::")
        text = report.longreprtext
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            text = report.longrepr[2]
        _rows.append((file, name, report.outcome, text))


def pytest_sessionfinish() -> None:
    Path(os.environ["FXREGION_TEST_RESULTS"]).write_text(json.dumps(_rows), encoding="utf-8")
