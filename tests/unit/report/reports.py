"""A run that found something, as for ``fxregion.json``."""

from __future__ import annotations

from typing import Any

from pytest_fxregion.report.machine import Failure, MachineReport, TestEntry

FIGURES: dict[str, Any] = {
    "name": None,
    "device": "cuda:0, virtual h100 (no GPU)",
    "graphs": 1,
    "regions_forward": 2,
    "regions_backward": 1,
    "nodes": 30,
    "saved_bytes": 2048,
    "gradient_accumulations": 3,
    "worst_of_allowed": 0.125,
    "worst_name": "output",
    "seconds": 0.26,
    "spilling": [],
}

CHANGED = Failure(
    "tests/test_a.py",
    18,
    (
        "snapshots/a.fx.txt differs from what was compiled on cpu:",
        "`add` in joint: 100% left region 0",
    ),
    "pytest tests/test_a.py::test_a --fxregion --snapshot-update",
)
BROKEN = Failure("tests/test_c.py", 1, ("?",))
FOUND = MachineReport(
    "2.13.0",
    "virtual h100 (no GPU)",
    (
        TestEntry("tests/test_a.py::test_a[x,y:z]", "failed", False, (FIGURES,), (), CHANGED),
        TestEntry("tests/test_b.py::test_b", "passed", figures=(FIGURES,)),
        TestEntry(
            "tests/test_c.py::test_c", "error", failure=Failure("tests/test_c.py", 1, ("?",))
        ),
        TestEntry("tests/test_d.py::test_d", "failed", True, (FIGURES,), (), CHANGED),
        TestEntry("tests/test_e.py::test_e", "xfailed", failure=CHANGED),
    ),
)
PASSED = MachineReport("2.13.0", "cpu", (TestEntry("tests/test_b.py::test_b", "passed"),))
