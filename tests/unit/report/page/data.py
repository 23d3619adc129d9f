"""Data of runs as ``collect`` makes it, of any size, without running anything."""

# ruff: noqa: E501 - lines of graphs are long

from __future__ import annotations

from typing import Any

from pytest_fxregion.report.page.difference import difference
from pytest_fxregion.report.page.listing import Labels, Piece, Stage, listing
from pytest_fxregion.report.page.model import Page, Test
from pytest_fxregion.report.page.region_graph import region_graph
from tests.unit.snapshots.texts import BLOCK, BODY, FORWARD, JOINT, edited

PASSED = "tests/test_block.py::test_passes"
FAILED = "tests/test_block.py::test_block"
DEVICE = "cuda:0, virtual h100 (no GPU)"

BACKWARD = """\
class GraphModule(torch.nn.Module):
    def forward(self, primals_2: "f32[10][1]cuda:0", sin: "f32[10][1]cuda:0", add: "f32[10][1]cuda:0", tangents_1: "f32[10][1]cuda:0"):
        # file: model.py in block: return torch.cos(h)
        sin_1: "f32[10][1]cuda:0" = torch.ops.aten.sin.default(add);  add = None
        mul_2: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(tangents_1, sin_1);  tangents_1 = sin_1 = None

        # file: model.py in block: h = h * w + 1
        # region: 0
        inductor_region_0 = inductor_region_0(mul_2, sin, primals_2);  mul_2 = primals_2 = None
        # region: 0
        mul_3: "f32[10][1]cuda:0" = inductor_region_0[0]
        # region: 0
        mul_4: "f32[10][1]cuda:0" = inductor_region_0[1];  inductor_region_0 = None

        # file: model.py in block: h = torch.sin(x)
        # ac_graph_id: 0 - PREFER_RECOMPUTE
        exp: "f32[10][1]cuda:0" = torch.ops.aten.exp.default(sin);  sin = None
        # gradient accumulation (is_gradient_acc)
        add_1: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(mul_4, exp);  mul_4 = exp = None
        return (add_1, mul_3)"""

BACKWARD_BODY = """\
class GraphModule(torch.nn.Module):
    def forward(self, arg0: "f32[10][1]cuda:0", arg1: "f32[10][1]cuda:0", arg2: "f32[10][1]cuda:0"):
        # file: model.py in block: h = h * w + 1
        # region: 0
        mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(arg0, arg1);  arg1 = None
        # region: 0
        mul_1: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(arg0, arg2);  arg0 = arg2 = None
        return (mul, mul_1)"""

KERNEL = """\
import triton
import triton.language as tl

@triton.jit
def triton_poi_fused_add_mul_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 10  # elements
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_ptr0 + xindex, xindex < xnumel)
    tl.store(out_ptr0 + xindex, tmp0 + 1.0, xindex < xnumel)
"""

SAVED = {"primals_2": "40 B", "sin": "40 B", "add": "40 B"}

_TYPE = '"f32[8, 8][8, 1]cuda:0"'


def stage_data(stage: Stage, labels: Labels) -> dict[str, Any]:
    """Return a stage's data; every region of it has the one kernel."""
    found = listing(stage, labels)
    nodes = found["nodes"]
    if stage.name != "joint":
        found["drawing"] = region_graph(nodes["op"], nodes["inputs"], nodes["band"])
    kernels = ["triton_poi_fused_add_mul_0"]
    found["programs"] = {
        piece.name: {"kernels": kernels, "operators": []} for piece in stage.pieces
    }
    found["saved_bytes"] = {piece.name: 40 for piece in stage.pieces if piece.kind == "forward"}
    found["recomputed_bytes"] = {}
    return found


def run_of(stages: list[Stage], **more: Any) -> dict[str, Any]:
    """Return a run's data with one graph of these stages."""
    labels = Labels()
    run: dict[str, Any] = {
        "name": None,
        "figures": {
            "name": None,
            "device": DEVICE,
            "graphs": 1,
            "regions_forward": 1,
            "regions_backward": 1,
            "nodes": 4,
            "saved_bytes": 120,
            "gradient_accumulations": 1,
            "worst_of_allowed": 0.05,
            "worst_name": "output",
            "spilling": [],
        },
        "graphs": [{"stages": [stage_data(stage, labels) for stage in stages]}],
        "labels": list(labels),
        "kernels": [{"name": "triton_poi_fused_add_mul_0", "language": "triton", "source": KERNEL}],
        "machine_code": [
            {
                "kernel": "triton_poi_fused_add_mul_0",
                "architecture": "h100",
                "configuration": "XBLOCK: 16, num_warps: 1",
                "registers": 18,
                "spills": 0,
                "shared_memory": 0,
            }
        ],
        "numbers": [
            {
                "name": name,
                "against": "float64",
                "error": 1.2e-7,
                "eager_error": 1.1e-7,
                "allowed": 2.3e-6,
                "of_allowed": 0.05,
                "ulps": 1.1,
                "cosine": 1.0,
                "where": [3],
                "problem": problem,
                "histogram": {
                    "lowest": -6,
                    "highest": 10,
                    "unit": 1.2e-7,
                    "regional": [4, 0, 0, 0, 1, 2, 2, 1, *[0] * 10],
                    "eager": [5, 0, 0, 0, 1, 2, 1, 1, *[0] * 10],
                },
            }
            for name, problem in (("output", None), ("gradient of x", "1 of 10 elements is off"))
        ],
        "sums": ["x: 2 gradients are summed, model.py:5"],
        "notes": ["`t` is left out of region 0: it is a view"],
        "execution": [f"traced for: {DEVICE}", "lowered: triton_poi_fused_add_mul_0"],
    }
    return {**run, **more}


STAGES = [
    Stage("joint", JOINT, saved=SAVED),
    Stage(
        "forward",
        FORWARD,
        (Piece("inductor_region_0", "forward", BODY, sources=("model.py:6", "model.py:7")),),
        SAVED,
    ),
    Stage(
        "backward",
        BACKWARD,
        (Piece("inductor_region_0", "backward", BACKWARD_BODY),),
        SAVED,
        frozenset({"exp"}),
    ),
]

BLOCK_RUN = run_of(STAGES)

ACCEPT = f"pytest {FAILED} --fxregion --snapshot-update"

CHANGED = {
    "path": "snapshots/test_block/test_block.fx.txt",
    **difference(
        edited(
            BLOCK,
            {
                "joint": (("        add:", "        # ac_graph_id: 0 - MUST_SAVE\n        add:"),),
                "forward": (("aten.cos.default", "aten.sin.default"),),
            },
        ),
        BLOCK,
    ),
}


def page_of(*tests: Test) -> Page:
    """Return a page with these tests."""
    return Page("2.13.0", "virtual h100 (no GPU)", tests)


def passed(nodeid: str = PASSED, run: dict[str, Any] | None = None) -> Test:
    """Return a test that passed."""
    return Test.of(nodeid, ["passed"], "", [BLOCK_RUN if run is None else run], None)


def failed() -> Test:
    """Return a test whose snapshot differs."""
    text = f"{CHANGED['path']} differs\n\nTo accept what was compiled now, run:\n{ACCEPT}"
    return Test.of(FAILED, ["passed", "failed"], text, [BLOCK_RUN], CHANGED)


def hundred() -> Page:
    """Return the page of a suite of a hundred tests, of which one failed and one was skipped."""
    other = run_of([Stage("inference", FORWARD.replace("cos", "tanh"))])
    other["figures"] = {**other["figures"], "device": "cpu, cpu"}
    tests = [
        passed(f"tests/models/test_layer_{at // 10}.py::test_case[{at}]", other if at % 7 else None)
        for at in range(98)
    ]
    skipped = Test.of("tests/test_gpu.py::test_gpu", ["skipped"], "needs a GPU: none", [], None)
    return page_of(*tests, skipped, failed())


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


def large(nodes: int) -> Page:
    """Return a page with one test, whose forward and backward have so many nodes each."""
    saved = {f"value_{at}": "256 B" for at in range(0, nodes, 10)}
    inputs = ", ".join(f"{name}: {_TYPE}" for name in saved)
    backward = large_text(nodes, "tangents_1").replace("value_", "grad_")
    backward = backward.replace("(self, ", f"(self, {inputs}, ", 1)
    stages = [
        Stage("forward", large_text(nodes), saved=saved),
        Stage("backward", backward, saved=saved),
    ]
    return page_of(passed("tests/test_large.py::test_large", run_of(stages)))
