"""Pieces that Inductor really compiles: one module of few, tiny graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import torch
import torch._functorch.config
import torch._inductor.config
from torch._inductor.async_compile import AsyncCompile
from torch.fx._graph_pickler import GraphPickler, Options
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.traceback import annotate as annotated
from torch.utils.checkpoint import checkpoint

from pytest_fxregion._torch.artifacts import dumped_module, loaded_module
from pytest_fxregion._torch.tensors import FakeTensor, new_fake_mode
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.errors import RegionError
from pytest_fxregion.regional import Region, compile_regions, regional_inductor, serializable
from pytest_fxregion.regional.artifacts import ARTIFACTS
from pytest_fxregion.regional.serialize import callable_again
from tests.unit.regional.annotated_graphs import Compiles, region, traced

X, Y = torch.linspace(0, 1, 4), torch.linspace(1, 2, 4)

Compiler = Callable[[torch.fx.GraphModule, Any], Any]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def calls(gm: torch.fx.GraphModule) -> list[Any]:
    return [n.target for n in gm.graph.nodes if hasattr(n.target, "fxregion_region")]


def recorder(found: list[Region]) -> Compiler:
    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled = compile_regions(gm, inputs)
        found.extend(compiled.regions)
        return compiled.graph_module

    return compiler


def test_forward_and_backward_of_two_entangled_regions_match_eager() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with annotated({"compile_with_inductor": {"inductor_region": "a"}}):
            a1 = x * 2
        with annotated({"compile_with_inductor": {"inductor_region": "b"}}):
            b2 = y + 1
            b1 = a1 + 3
        with annotated({"compile_with_inductor": {"inductor_region": "a"}}):
            a2 = b2 * 5
        return b1.sin() + a2.cos()

    found: list[Region] = []
    backend = aot_autograd(fw_compiler=recorder(found), bw_compiler=recorder(found))
    inputs = [t.clone().requires_grad_() for t in (X, Y)]
    expected = [t.clone().requires_grad_() for t in (X, Y)]
    result = torch.compile(fn, backend=backend, fullgraph=True)(*inputs)
    result.sum().backward()
    fn(*expected).sum().backward()
    torch.testing.assert_close(result, fn(X, Y))
    for got, want in zip(inputs, expected, strict=True):
        torch.testing.assert_close(got.grad, want.grad)
    assert sum(r.kind == "forward" for r in found) == 3
    assert {r.kind for r in found} == {"forward", "backward"}
    assert all(source.startswith(__file__ + ":") for r in found for source in r.sources)


def test_recomputed_region_uses_the_artifact_of_the_forward(compiles: Compiles) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        with annotated({"compile_with_inductor": 0}):
            y = x.sin() * 2
        return y.exp()

    def fn(x: torch.Tensor) -> Any:
        return checkpoint(block, x, use_reentrant=False).cos()

    found: list[Region] = []
    backend = aot_autograd(fw_compiler=recorder(found), bw_compiler=recorder(found))
    x = X.clone().requires_grad_()
    torch.compile(fn, backend=backend, fullgraph=True)(x).sum().backward()
    assert [r.kind for r in found] == ["forward", "recompute", "backward"]
    assert len(compiles.bodies) == 2  # one for forward and recompute, one for backward
    expected = X.clone().requires_grad_()
    fn(expected).sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


def test_without_tracing_context_and_with_gradients_enabled() -> None:
    marks = {"mul": region(0), "add": region(0)}
    gm = compile_regions(traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)).graph_module
    torch.testing.assert_close(gm(X, Y), (X * Y + 1).cos())
    x = X.clone().requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(gm([x, Y]), (X * Y + 1).cos())


def test_generated_function_is_called_directly_where_that_is_enough() -> None:
    marks = {"mul": region(0), "add": region(0)}
    gm = compile_regions(traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)).graph_module
    (call,) = calls(gm)
    called: list[int] = []
    call.__wrapped__ = lambda *operands: called.append(1)
    with torch.no_grad():
        torch.testing.assert_close(call(X, Y), X * Y + 1)
    assert called == []


def test_region_that_writes_its_operand() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.mul_(2)
        return y + 1

    gm = compile_regions(traced(fn, X, marks={"mul_": 0, "add": 0})).graph_module
    with torch.no_grad():
        torch.testing.assert_close(gm(X), X.sin() * 2 + 1)


def test_region_whose_result_is_a_view_of_its_operand() -> None:
    gm = compile_regions(
        traced(lambda x: (x.sin().view(2, 2), x.cos()), X, marks={"view": 0})
    ).graph_module
    with torch.no_grad():
        torch.testing.assert_close(gm(X)[0], X.sin().view(2, 2))


def test_gradients_flow_through_a_region_that_was_traced_with_them() -> None:
    gm = traced(lambda x: (x * 2 + 1).sin(), X, marks={"mul": 0, "add": 0})
    next(iter(gm.graph.nodes)).meta["val"].requires_grad_()
    x = X.clone().requires_grad_()
    compile_regions(gm).graph_module(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * (X * 2 + 1).cos())


def test_gradients_are_not_lost_in_silence() -> None:
    gm = compile_regions(traced(lambda x: (x * 2 + 1).sin(), X, marks={"mul": 0, "add": 0}))
    with pytest.warns(UserWarning, match="inductor_region_0 was traced without gradients"):
        gm.graph_module(X.clone().requires_grad_())


@pytest.mark.parametrize("grad", [True, False])
def test_fake_operands_give_the_form_of_the_results(grad: bool) -> None:
    """Compiled code would read their memory, of which they have none."""
    marks = {"mul": region(0), "add": region(0), "t": region(0)}
    gm = compile_regions(
        traced(lambda x: ((x * 2 + 1).t(), x.cos()), X.view(2, 2), marks=marks)
    ).graph_module
    mode = new_fake_mode()
    with torch.set_grad_enabled(grad):
        for run in (gm, FakeTensorProp(gm, mode).propagate):
            given = mode.from_tensor(torch.ones(2, 2))
            result, _ = run(given)
            assert isinstance(result, FakeTensor)
            assert (result.shape, result.stride()) == ((2, 2), (1, 2))
        with mode:
            assert isinstance(gm(torch.ones(2, 2))[0], FakeTensor)
        torch.testing.assert_close(gm(Y.view(2, 2))[0], (Y * 2 + 1).view(2, 2).t())


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_what_is_traced_again_has_the_operators_of_its_regions(mode: Any) -> None:
    marks = {"mul": region(0), "add": region(0)}
    gm = compile_regions(traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)).graph_module
    with torch.no_grad():
        again = make_fx(gm, tracing_mode=mode)(X, Y)
        names = [node.name for node in again.graph.nodes if node.op == "call_function"]
        assert names == ["mul", "add", "cos"]
        torch.testing.assert_close(again(Y, Y), (Y * Y + 1).cos())


def test_annotations_that_code_depends_on_are_told_to_torchs_caches(compiles: Compiles) -> None:
    marks = {"sin": region("a"), "sin_1": region("b"), "sin_2": region("c")}
    gm = traced(lambda x: x.sin().cos().sin().cos().sin(), X, marks=marks)
    for node in gm.graph.nodes:
        if node.name == "sin_1":
            node.meta["custom"]["fallback_to_eager"] = True
    compile_regions(gm)
    assert len(compiles.bodies) == 2  # of the first and the last one is used
    plain, other = compiles.cache_tags
    assert plain == ""
    assert "fallback_to_eager" in other


def test_failing_region_is_named_with_its_lines_and_configs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such kernel")

    ARTIFACTS.reset()
    monkeypatch.setattr(torch._inductor, "standalone_compile", fail)
    gm = traced(lambda x: x + 1, X, marks={"add": region("r", epilogue_fusion=False)})
    next(n for n in gm.graph.nodes if n.name == "add").meta["stack_trace"] = (
        'File "/model.py", line 7, in forward\n    x + 1'
    )
    with pytest.raises(RegionError) as raised:
        compile_regions(gm)
    assert str(raised.value) == (
        "inductor_region_0 (/model.py:7) could not be compiled under "
        "{'epilogue_fusion': False}: RuntimeError: no such kernel"
    )


def test_region_whose_kernel_fails_is_named_and_the_others_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[torch.fx.GraphModule] = []

    def fake(body: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
        kernel: Future[None] = Future()
        if len(compiled) == 1:
            kernel.set_exception(RuntimeError("g++ gave up"))
        else:
            kernel.set_result(None)
        compiled.append(body)
        AsyncCompile().wait({"kernel": kernel})
        return body

    monkeypatch.setattr(torch._inductor, "standalone_compile", fake)
    gm = traced(lambda x: (x + 1).sin() * 3, X, marks={"add": region("a"), "mul": region("b")})
    with (
        torch._inductor.config.patch(compile_threads=2),
        pytest.raises(RegionError, match=r"^inductor_region_1 could not be compiled: .*gave up"),
    ):
        compile_regions(gm)
    compile_regions(gm)
    assert [body.code for body in compiled] == [
        compiled[0].code,
        compiled[1].code,
        compiled[1].code,
    ]


def test_changed_annotation_is_not_answered_from_the_cache_of_autograd() -> None:
    found: list[Region] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        found.extend(compile_regions(gm, inputs).regions)
        return regional_inductor(gm, inputs)

    def run(value: object) -> torch.Tensor:
        def fn(x: torch.Tensor) -> torch.Tensor:
            with annotated({"compile_with_inductor": value}):
                return x * 3 + 1

        torch._dynamo.reset()
        compiled = torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))
        with torch.no_grad():
            return compiled(X)

    caching = {
        "enable_autograd_cache": True,
        "force_autograd_cache": True,
        "bundled_autograd_cache": True,
    }
    with torch._functorch.config.patch(caching):
        torch.testing.assert_close(run(None), X * 3 + 1)
        assert found == []
        torch.testing.assert_close(run(0), X * 3 + 1)
        assert len(found) == 1


def test_pickled_graph_runs_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"mul": region(0), "add": region(0)}
    gm = compile_regions(traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)).graph_module
    data = GraphPickler.dumps(serializable(gm), Options(ops_filter=None))
    monkeypatch.setattr(torch._inductor, "standalone_compile", None)
    loaded: Any = GraphPickler.loads(data, next(iter(gm.graph.nodes)).meta["val"].fake_mode)
    loaded.recompile()
    with torch.no_grad():
        torch.testing.assert_close(loaded(X, Y), (X * Y + 1).cos())
        torch.testing.assert_close(loaded([X, Y]), (X * Y + 1).cos())


def test_what_stands_for_a_graph_in_a_cache_may_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"mul": region(0), "add": region(0)}
    gm = traced(lambda x, y: (x * y + 1).cos(), X, Y, marks=marks)
    with torch._functorch.config.patch(force_autograd_cache=True):
        result = regional_inductor(gm, X, Y)
    data = GraphPickler.dumps(result)
    monkeypatch.setattr(torch._inductor, "standalone_compile", None)
    loaded: Any = GraphPickler.loads(data, next(iter(gm.graph.nodes)).meta["val"].fake_mode)
    for compiled in (result, loaded):
        with torch.no_grad():
            torch.testing.assert_close(compiled([X, Y]), (X * Y + 1).cos())


def test_pickled_regions_of_an_operators_body_run_without_compiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        def positive(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with annotated({"compile_with_inductor": 0}):
                return (x * y + 1).sin()

        return torch.cond(x.sum() > 0, positive, lambda x, y: x.cos() * y, (x, y))

    found: list[Any] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        found.append(compile_regions(gm, inputs).graph_module)
        return found[-1]

    with torch.no_grad():
        torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))(Y, X)
    (gm,) = found
    data = GraphPickler.dumps(serializable(gm), Options(ops_filter=None))
    monkeypatch.setattr(torch._inductor, "standalone_compile", None)
    loaded: Any = GraphPickler.loads(data, next(iter(gm.graph.nodes)).meta["val"].fake_mode)
    again = callable_again(loaded)
    bodies = [m for m in again.modules() if isinstance(m, torch.fx.GraphModule) and m is not again]
    assert any("inductor_region_0.boxed" in body.code for body in bodies)
    for x in (Y, -Y):
        with torch.no_grad():
            torch.testing.assert_close(again([x, X])[0], fn(x, X))


def test_pickled_region_refuses_what_it_cannot_compute_with() -> None:
    gm = compile_regions(traced(lambda x: x * 2 + 1, X, marks={"mul": 0, "add": 0})).graph_module
    again = callable_again(loaded_module(dumped_module(serializable(gm))))
    with (
        torch.no_grad(),
        new_fake_mode() as mode,
        pytest.raises(RegionError, match="inductor_region_0 was called with fake tensors"),
    ):
        again(mode.from_tensor(X))
