"""The backend and the public names, as a plain script uses them.

What compiles is compiled once for the module: the runs below share one function.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.traceback import annotate, preserve_node_meta

import pytest_fxregion
from pytest_fxregion import regional_inductor
from pytest_fxregion._torch.dynamo import reset_compiler
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.capture.record import Compilation
from pytest_fxregion.checks.as_traced import only_torchs_own_trace

SOURCE_TREE = Path(__file__).parents[2]


def block(x: Tensor, w: Tensor) -> Tensor:
    h = torch.sin(x)
    with annotate({"compile_with_inductor": 0}):
        h = h * w + 1
        h = h.sin() + h.cos()
    return torch.sin(h)


def leaf() -> Tensor:
    return torch.linspace(-1, 1, 10, requires_grad=True)


@dataclass
class Result:
    """What a call gave, and what became of the arguments."""

    output: Tensor
    gradients: list[Tensor | None]


def result(function: Any) -> Result:
    x, w = leaf(), leaf()
    output = function(x, w)
    output.backward(torch.ones(10))
    return Result(output.detach(), [x.grad, w.grad])


def assert_same(one: Result, other: Result) -> None:
    torch.testing.assert_close(one.output, other.output)
    torch.testing.assert_close(one.gradients, other.gradients)


@dataclass
class Recorded:
    """The block compiled by our backend, with what was captured."""

    result: Result
    compilation: Compilation


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    reset_compiler()
    capture = Capture(SOURCE_TREE, "here")
    with only_torchs_own_trace():
        found = result(torch.compile(block, backend=RegionalBackend(capture)))
    return Recorded(found, capture.result())


def test_the_compiled_function_computes_what_eager_does(recorded: Recorded) -> None:
    assert_same(recorded.result, result(block))


def test_a_capture_holds_every_stage(recorded: Recorded) -> None:
    (graph,) = recorded.compilation.graphs
    assert [record.stage for record in graph.stages()] == ["joint", "forward", "backward"]
    assert graph.forward is not None
    assert graph.backward is not None
    assert {region.kind for region in recorded.compilation.regions} == {"forward", "backward"}
    assert "inductor_region_0(" in graph.forward.text
    assert "inductor_region_0(" in graph.backward.text
    assert graph.forward.saved_bytes > 0
    assert [r.provenance for r in graph.stages()] == ["here"] * 3


def test_a_sum_of_gradients_is_in_no_region(recorded: Recorded) -> None:
    """h is used twice inside the region; the sum of its gradients parts the backward."""
    (graph,) = recorded.compilation.graphs
    assert graph.joint is not None
    assert graph.backward is not None
    assert len(graph.joint.gradient_accumulations) == 1
    (addition,) = graph.backward.gradient_accumulations
    assert all(addition not in region.nodes for region in graph.backward.regions)
    assert addition in [node.name for node in graph.backward.graph.graph.nodes]


def test_records_do_not_change_when_what_was_compiled_does(recorded: Recorded) -> None:
    (graph,) = recorded.compilation.graphs
    assert graph.joint is not None
    assert "# region: 0" in graph.joint.text
    names = [getattr(node.target, "__name__", "") for node in graph.joint.graph.graph.nodes]
    assert not any("inductor_region" in name for name in names)


def test_without_gradients_there_is_an_inference_graph() -> None:
    reset_compiler()
    capture = Capture()
    with torch.no_grad(), only_torchs_own_trace():
        output = torch.compile(block, backend=RegionalBackend(capture))(leaf(), leaf())
    torch.testing.assert_close(output, block(leaf(), leaf()).detach())
    (graph,) = capture.result().graphs
    assert [record.stage for record in graph.stages()] == ["inference"]


def test_a_graph_whose_compilation_fails_is_forgotten() -> None:
    capture = Capture()
    with pytest.raises(ZeroDivisionError), capture.graph():
        raise ZeroDivisionError
    assert capture.result() == Compilation(())


def test_regional_inductor_serves_as_the_compilers_of_aot_autograd() -> None:
    graphs: list[fx.GraphModule] = []

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        graphs.append(regional_inductor(graph, *inputs))
        return graphs[-1]

    reset_compiler()
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    with preserve_node_meta(), only_torchs_own_trace():
        found = result(torch.compile(block, backend=backend, fullgraph=True))
    assert_same(found, result(block))
    for graph in graphs:
        names = [getattr(node.target, "__name__", "") for node in graph.graph.nodes]
        assert "inductor_region_0" in names


def test_regional_inductor_may_be_handed_to_aot_autograd_directly() -> None:
    reset_compiler()
    backend = aot_autograd(fw_compiler=regional_inductor, bw_compiler=regional_inductor)
    with preserve_node_meta(), only_torchs_own_trace():
        found = result(torch.compile(block, backend=backend, fullgraph=True))
    assert_same(found, result(block))


SCRIPT = """
import torch
from torch.fx.traceback import annotate

def block(x, w):
    with annotate({"compile_with_inductor": 0}):
        return torch.sin(x * w + 1)

torch._inductor.config.disable_cpp_codegen = True  # a C++ compiler is slow to start
compiled = torch.compile(block, backend="fxregion")
x = torch.linspace(-1, 1, 10, requires_grad=True)
compiled(x, x.detach()).sum().backward()
by_hand = torch.cos(x * x + 1) * x
torch.testing.assert_close(x.grad, by_hand.detach())
print("same")
"""


def in_a_process(script: str, *options: str) -> str:
    """Run a script that has nothing but the environment's packages."""
    done = subprocess.run(
        [sys.executable, *options, "-c", script],
        cwd=SOURCE_TREE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_plain_script_finds_the_backend_by_its_name() -> None:
    assert in_a_process(SCRIPT) == "same"


def test_public_names_are_there_and_importing_them_lazily_costs_no_torch() -> None:
    script = """
import sys
import pytest_fxregion
from pytest_fxregion import CheckError, DeviceError, SnapshotError, __version__
assert set(dir(pytest_fxregion)) == set(pytest_fxregion.__all__)
heavy = {"torch", "triton", "numpy", "syrupy", "pytest_fxregion.harness"} & set(sys.modules)
print(sorted(heavy))
"""
    assert in_a_process(script) == "[]"


def test_every_public_name_can_be_had() -> None:
    for name in pytest_fxregion.__all__:
        assert getattr(pytest_fxregion, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pytest_fxregion.nothing  # noqa: B018
