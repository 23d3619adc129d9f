"""Data of runs as ``collect`` makes it, of any size, without running anything."""

from __future__ import annotations

from typing import Any

from pytest_fxregion.report.page.listing import Labels, Piece, Stage, listing
from pytest_fxregion.report.page.model import Page, Test
from pytest_fxregion.report.page.region_graph import region_graph
from tests.unit.snapshots.texts import BODY, FORWARD, JOINT

PASSED = "tests/test_block.py::test_passes"

_TYPE = '"f32[8, 8][8, 1]cuda:0"'


def stage_data(stage: Stage, labels: Labels) -> dict[str, Any]:
    """Return a stage's data."""
    found = listing(stage, labels)
    nodes = found["nodes"]
    if stage.name != "joint":
        found["drawing"] = region_graph(nodes["op"], nodes["inputs"], nodes["band"])
    found["programs"] = {}
    return found


def run_of(stages: list[Stage], **more: Any) -> dict[str, Any]:
    """Return a run's data with one graph of these stages."""
    labels = Labels()
    run: dict[str, Any] = {
        "name": None,
        "figures": {
            "name": None,
            "device": "cuda:0, virtual h100 (no GPU)",
            "graphs": 1,
            "regions_forward": 1,
            "regions_backward": 0,
            "nodes": 4,
            "saved_bytes": 120,
            "gradient_accumulations": 1,
            "worst_error": 1e-7,
            "worst_name": "output",
            "spilling": [],
        },
        "graphs": [{"stages": [stage_data(stage, labels) for stage in stages]}],
        "labels": list(labels),
        "kernels": [],
        "machine_code": [],
        "numbers": [],
        "sums": [],
        "execution": [],
    }
    return {**run, **more}


BLOCK_RUN = run_of(
    [
        Stage("joint", JOINT),
        Stage("forward", FORWARD, (Piece("inductor_region_0", "forward", BODY),)),
    ]
)


def page_of(*tests: Test) -> Page:
    """Return a page with these tests."""
    return Page("2.13.0", "virtual h100 (no GPU)", tests)


def passed(nodeid: str = PASSED, run: dict[str, Any] | None = None) -> Test:
    """Return a test that passed."""
    return Test.of(nodeid, ["passed"], "", [BLOCK_RUN if run is None else run], None)


def large_text(nodes: int, first: str = "primals_1") -> str:
    """Return the text of a chain of operations, each third of which takes an earlier value too."""
    lines = [
        "class GraphModule(torch.nn.Module):",
        f"    def forward(self, {first}: {_TYPE}):",
    ]
    names = [first]
    for at in range(nodes):
        if at % 5 == 0:
            lines.append(f"        # file: model.py in layer: x = layer_{at // 5}(x)")
        args = f"{names[-1]}, {names[max(0, at - 40)]}" if at % 3 == 0 else names[-1]
        operator = "add.Tensor" if at % 3 == 0 else "sin.default"
        lines.append(f"        value_{at}: {_TYPE} = torch.ops.aten.{operator}({args})")
        names.append(f"value_{at}")
    lines.append(f"        return ({names[-1]}, {names[len(names) // 2]})")
    return "\n".join(lines)
