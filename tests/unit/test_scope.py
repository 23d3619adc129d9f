"""``region(...)`` as a scope: what is annotated, in which thread, under which tracer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.traceback import annotate, preserve_node_meta

from pytest_fxregion import AnnotationError, region
from pytest_fxregion._torch.dynamo import reset_compiler
from pytest_fxregion.checks.as_traced import only_torchs_own_trace
from pytest_fxregion.scope import annotation_in_force
from tests.unit.passes.joint_tracing import joint_graph, leaf

DEFAULT: dict[str, object] = {"compile_with_inductor": {}}


def named(name: object) -> dict[str, object]:
    return {"compile_with_inductor": {"inductor_region": name}}


def annotated(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """The operations of a graph, by their operators' names, and what they are annotated with."""
    assert isinstance(module, fx.GraphModule)
    return [
        (str(node.target).removeprefix("aten.").split(".")[0], node.meta.get("custom"))
        for node in module.graph.nodes
        if node.op in ("call_function", "call_method")
    ]


def under_make_fx(function: Callable[..., Any], *args: Tensor) -> list[tuple[str, Any]]:
    return annotated(make_fx(function)(*args))


def under_dynamo(function: Callable[..., Any], *args: Tensor) -> list[tuple[str, Any]]:
    found = []

    def backend(graph: fx.GraphModule, _inputs: Any) -> Any:
        found.append(annotated(graph))
        return graph.forward

    reset_compiler()
    with only_torchs_own_trace():
        torch.compile(function, backend=backend, fullgraph=True)(*args)
    (graph,) = found
    return graph


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_may_break_inside_of_the_scope(dynamic: bool) -> None:
    def function(x: Tensor) -> Tensor:
        with region("a", configs={"epilogue_fusion": False}, stage=2):
            x = x.sin()
            torch._dynamo.graph_break()
            return x * 2

    reset_compiler()
    with only_torchs_own_trace():
        compiled = torch.compile(function, backend="eager", dynamic=dynamic)
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin() * 2)


def under_export(function: Callable[..., Any], *args: Tensor) -> list[tuple[str, Any]]:
    class Model(torch.nn.Module):
        def forward(self, *values: Tensor) -> Any:
            return function(*values)

    with only_torchs_own_trace():
        return annotated(torch.export.export(Model(), args).graph_module)


TRACERS = pytest.mark.parametrize("trace", [under_make_fx, under_dynamo, under_export])


def nested(x: Tensor) -> Tensor:
    x = x.sin()
    with region("outer", stage=1):
        x = x.cos()
        with region("inner", configs={"epilogue_fusion": False}):
            x = x.exp()
        with region(False):
            x = x.tanh()
        x = x.abs()
    return x.neg()


@TRACERS
def test_scopes_nest_and_the_outer_one_comes_back(trace: Callable[..., Any]) -> None:
    outer = {**named("outer"), "stage": 1}
    inner = {"inductor_region": "inner", "inductor_configs": {"epilogue_fusion": False}}
    assert trace(nested, torch.ones(2)) == [
        ("sin", None),
        ("cos", outer),
        ("exp", {"compile_with_inductor": inner, "stage": 1}),
        ("tanh", {"compile_with_inductor": False, "stage": 1}),
        ("abs", outer),
        ("neg", None),
    ]


@region("whole", owner="me")
def decorated(x: Tensor) -> Tensor:
    return x.sin()


@TRACERS
def test_a_decorated_functions_body_is_in_the_scope(trace: Callable[..., Any]) -> None:
    found = trace(lambda x: decorated(x).cos(), torch.ones(2))
    assert found == [("sin", {**named("whole"), "owner": "me"}), ("cos", None)]
    assert decorated.__name__ == "decorated"


def leaves_by_an_exception(x: Tensor) -> Tensor:
    try:
        with region("left"):
            x = x.sin()
            raise ValueError
    except ValueError:
        return x.cos()


@TRACERS
def test_an_exception_leaves_the_scope(trace: Callable[..., Any]) -> None:
    assert trace(leaves_by_an_exception, torch.ones(2)) == [("sin", named("left")), ("cos", None)]


def the_branches_of_a_condition(x: Tensor) -> Tensor:
    with region():
        result: Tensor = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
    return result.exp()


def test_the_bodies_of_operators_are_annotated_too() -> None:
    graph = make_fx(the_branches_of_a_condition)(torch.ones(2))
    assert [annotation for _, annotation in annotated(graph)] == [DEFAULT] * 4 + [None]
    bodies = [m for m in graph.modules() if m is not graph and isinstance(m, fx.GraphModule)]
    assert [annotated(body) for body in bodies] == [[("sin", DEFAULT)], [("cos", DEFAULT)]]


def test_scopes_reach_a_joint_graphs_backward() -> None:
    found = annotated(joint_graph(lambda x: decorated(x).exp(), leaf(2)))
    assert dict(found)["cos"] == {**named("whole"), "owner": "me"}
    assert dict(found)["exp"] is None


def test_a_node_that_is_erased_in_the_scope_does_not_matter() -> None:
    def function(x: Tensor) -> Tensor:
        x.exp()
        unused = x.tan()
        with region("r"):
            x = x.sin()
            mode = get_proxy_mode()
            assert mode is not None
            graph = mode.tracer.graph
            graph.erase_node(next(n for n in graph.nodes if n.name == "tan"))
            del unused
        return x.cos()

    assert under_make_fx(function, torch.ones(2)) == [
        ("exp", None),
        ("sin", named("r")),
        ("cos", None),
    ]


def test_torchs_own_scopes_nest_with_ours() -> None:
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0, "a": 0}):
            with region("ours", b=1):
                x = x.sin()
                with annotate({"b": 2}):
                    x = x.cos()
            return x.exp()

    with preserve_node_meta():
        found = under_make_fx(function, torch.ones(2))
    assert found == [
        ("sin", {**named("ours"), "a": 0, "b": 1}),
        ("cos", {**named("ours"), "a": 0, "b": 2}),
        ("exp", {"compile_with_inductor": 0, "a": 0}),
    ]


def test_two_threads_that_trace_at_once_see_their_own_scopes_only() -> None:
    # One after the other out again: make_fx itself does not bear another order.
    found: dict[str, Any] = {}

    def inner(x: Tensor) -> Tensor:
        x = x.exp()
        with region("inner"):
            return x.tanh()

    def trace_inner() -> None:
        found["inner"] = under_make_fx(inner, torch.ones(2))

    def outer(x: Tensor) -> Tensor:
        with region("outer"):
            x = x.sin()
            thread = threading.Thread(target=trace_inner)
            thread.start()
            thread.join()
            x = x.abs()
        return x.cos()

    found["outer"] = under_make_fx(outer, torch.ones(2))
    assert found == {
        "outer": [("sin", named("outer")), ("abs", named("outer")), ("cos", None)],
        "inner": [("exp", None), ("tanh", named("inner"))],
    }


def test_a_thread_that_traces_does_not_see_the_scope_of_one_that_does_not() -> None:
    inside, traced = threading.Event(), threading.Event()

    def stay_inside() -> None:
        with preserve_node_meta(), region("elsewhere"):
            inside.set()
            traced.wait(30)

    thread = threading.Thread(target=stay_inside)
    thread.start()
    assert inside.wait(30)
    try:
        assert under_make_fx(lambda x: x.sin(), torch.ones(2)) == [("sin", None)]
        assert annotation_in_force() == {}
    finally:
        traced.set()
        thread.join()


def test_what_is_in_force_is_known_where_nothing_is_traced() -> None:
    with region("a", stage=1), region(configs={}):
        assert annotation_in_force() == {
            "compile_with_inductor": {"inductor_configs": {}},
            "stage": 1,
        }
    assert annotation_in_force() == {}


def test_a_scope_can_be_entered_again_and_in_itself() -> None:
    scope = region("again")
    for _ in range(2):
        with scope, scope:
            assert annotation_in_force() == named("again")
    assert annotation_in_force() == {}


SCOPE = region("made here")


def test_one_made_outside_of_the_compiled_function_is_refused_there() -> None:
    def function(x: Tensor) -> Tensor:
        with SCOPE:
            return x.sin()

    reset_compiler()
    with only_torchs_own_trace(), pytest.raises(AnnotationError) as error:
        torch.compile(function, backend="eager")(torch.ones(2))
    line = function.__code__.co_firstlineno + 1
    assert str(error.value) == (
        f"{__file__}:{line}: the region was made outside of the compiled function that enters it, "
        "where dynamo cannot follow; write `with region(...):` there"
    )
    assert annotation_in_force() == {}


def left_to_eager(x: Tensor) -> Tensor:
    for _ in range(2):
        with region("a"):
            torch._dynamo.graph_break()
            x = decorated(x)
    return x


def with_scope(x: Tensor) -> Tensor:
    with SCOPE:
        return x.sin()


@torch.compiler.disable  # type: ignore[untyped-decorator]
def kept_from_dynamo(x: Tensor) -> Tensor:
    return with_scope(x)


@pytest.mark.parametrize("function", [left_to_eager, kept_from_dynamo])
def test_code_that_dynamo_leaves_to_eager_may_enter_one(function: Callable[..., Tensor]) -> None:
    reset_compiler()
    with only_torchs_own_trace():
        compiled = torch.compile(lambda x: function(x).cos(), backend="eager")
        assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)).cos())


def test_where_nothing_new_is_compiled_one_made_outside_may_be_entered() -> None:
    reset_compiler()
    compiled = torch.compile(lambda x: with_scope(x).cos(), backend="eager")
    with only_torchs_own_trace(), torch.compiler.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin().cos())


UNUSABLE = pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"configs": {"max_autotunes": True}},
            "'inductor_configs' has the key 'max_autotunes', which torch._inductor.config does "
            "not know; did you mean 'max_autotune'?",
        ),
        (
            {"configs": {"max_autotune": "yes"}},
            "'inductor_configs' sets 'max_autotune' to 'yes' (str); "
            "torch._inductor.config wants bool",
        ),
        ({"configs": ["max_autotune"]}, "'inductor_configs' must be a mapping of"),
        ({"id": torch.ones(1)}, "a tensor cannot be the id of a region"),
        ({"id": nested}, "write @region() with parentheses"),
        ({"compile_with_inductor": 0}, "'compile_with_inductor' is what region() sets itself"),
    ],
    ids=["unknown_config", "wrong_type", "no_mapping", "tensor", "function", "own_key"],
)


@UNUSABLE
def test_arguments_that_cannot_be_used_are_one_clear_error(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(AnnotationError) as error:
        region(**arguments)
    assert text in str(error.value)
    assert str(error.value).startswith(f"{__file__}:")


@UNUSABLE
def test_under_dynamo_they_are_the_same_error_of_the_backend(
    arguments: dict[str, Any], text: str
) -> None:
    def function(x: Tensor) -> Tensor:
        with region(**arguments):
            return x.sin()

    reset_compiler()
    with only_torchs_own_trace(), pytest.raises(BackendCompilerFailed) as error:
        torch.compile(function, backend="fxregion")(torch.ones(2))
    cause = error.value.inner_exception
    assert isinstance(cause, AnnotationError)
    assert text in str(cause)
    assert str(cause).startswith(f"{__file__}:")
