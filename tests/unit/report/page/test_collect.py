"""What is taken from a run: texts as they are, paths from the root, no tensors and no seconds."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import fx

from pytest_fxregion.capture.record import CompiledGraph, GraphRecord, SavedValue
from pytest_fxregion.checks.numerics import compare
from pytest_fxregion.kernels.machine_code import MachineCode
from pytest_fxregion.kernels.source import Kernel, Program
from pytest_fxregion.regional import Region
from pytest_fxregion.report.page.collect import run_data
from pytest_fxregion.run import RegionRun
from tests.unit.report.page.data import KERNEL
from tests.unit.snapshots.texts import BODY, FORWARD, JOINT

GRAPH = fx.GraphModule({}, fx.Graph())
TRITON = Kernel("triton_poi_fused_add_mul_0", "triton", KERNEL)


@pytest.fixture
def run(tmp_path: Path) -> RegionRun:
    """A run as the harness leaves it, of which only what a page takes is there."""
    region = Region(
        name="inductor_region_0",
        label="default",
        configs={"max_autotune": True},
        nodes=("mul", "add"),
        body=GRAPH,
        inputs=("sin", "primals_2"),
        outputs=("add",),
        sources=(f"{tmp_path}/models/block.py:7", "/elsewhere/library.py:3"),
        kind="forward",
        shared_with="inductor_region_3",
    )
    forward = GraphRecord(
        stage="forward",
        text=FORWARD,
        graph=GRAPH,
        node_count=4,
        regions=(region,),
        region_texts={"inductor_region_0": BODY},
        programs={"inductor_region_0": Program((TRITON,), ("extern_kernels.mm",))},
        saved_for_backward=(
            SavedValue("sin", "f32[600]", "2400", 2400),
            SavedValue("add", "f32[s0]", "4*s0", 40, region="inductor_region_0"),
        ),
    )
    joint = GraphRecord(stage="joint", text=JOINT, graph=GRAPH, node_count=6)
    eager = {"output": torch.ones(3), "count": 3}
    regional = {"output": torch.tensor([1.0, 1.0, 1.5]), "count": 3}
    return cast(
        RegionRun,
        SimpleNamespace(
            name="first",
            summary=lambda: {"device": "cuda:0", "seconds": 1.5},
            graphs=(CompiledGraph(joint=joint, forward=forward),),
            kernels=(TRITON,),
            machine_code=(
                MachineCode(TRITON.name, "h100", "XBLOCK: 16", 18, 8, 4, 1024, 4000, "ptx"),
            ),
            differences=compare(eager, regional, None),
            eager=SimpleNamespace(values=eager),
            regional=SimpleNamespace(values=regional),
            reference=None,
            tracked=SimpleNamespace(eager=()),
            notes=("a note",),
            execution=SimpleNamespace(lines=lambda: iter(["traced for: cuda:0"])),
        ),
    )


@pytest.fixture
def data(run: RegionRun, tmp_path: Path) -> dict[str, Any]:
    return run_data(run, tmp_path)


def test_data_is_plain_and_has_no_seconds(data: dict[str, Any]) -> None:
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(data, sort_keys=True))
    assert data["figures"] == {"device": "cuda:0"}


def test_a_region_says_what_the_engine_knows_of_it(data: dict[str, Any]) -> None:
    (band,) = data["graphs"][0]["stages"][1]["bands"]
    assert band["sources"] == ["models/block.py:7", "library.py:3"]
    assert band["shared_with"] == "inductor_region_3"
    assert band["configs"] == "{'max_autotune': True}"


def test_saved_values_of_the_forward_are_marked_in_the_joint_graph_too(
    data: dict[str, Any],
) -> None:
    joint, forward = data["graphs"][0]["stages"]
    for stage in (joint, forward):
        assert [(entry["name"], entry["size"]) for entry in stage["saved"]] == [
            ("sin", "2.3 KiB"),
            ("add", "4*s0 B"),
        ]


def test_what_a_region_costs_in_memory_is_under_its_name(data: dict[str, Any]) -> None:
    _, forward = data["graphs"][0]["stages"]
    assert forward["saved_bytes"] == {"": 2400, "inductor_region_0": 40}
    assert data["notes"] == ["a note"]


def test_only_compiled_graphs_are_drawn(data: dict[str, Any]) -> None:
    joint, forward = data["graphs"][0]["stages"]
    assert "drawing" not in joint
    assert [box["count"] for box in forward["drawing"]["boxes"]] == [1, 2, 1]


def test_kernels_have_their_source_and_what_they_compile_to(data: dict[str, Any]) -> None:
    assert data["graphs"][0]["stages"][1]["programs"] == {
        "inductor_region_0": {
            "kernels": ["triton_poi_fused_add_mul_0"],
            "operators": ["extern_kernels.mm"],
        }
    }
    assert data["kernels"][0]["source"] == KERNEL.strip("\n")
    assert data["machine_code"] == [
        {
            "kernel": "triton_poi_fused_add_mul_0",
            "architecture": "h100",
            "configuration": "XBLOCK: 16",
            "registers": 18,
            "spills": 12,
            "shared_memory": 1024,
        }
    ]


def test_numbers_have_a_histogram_where_there_are_elements(data: dict[str, Any]) -> None:
    output, count = data["numbers"]
    assert output["problem"] is not None
    assert output["where"] == [2]
    assert sum(output["histogram"]["regional"]) == 3
    assert count["histogram"] is None
