"""Pieces that differ in anything that matters have different keys; others have equal ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion._torch.modes import ambient_compile_state
from pytest_fxregion.regional.fingerprint import fingerprint

Function = Callable[..., Any]
Mode = Literal["real", "fake", "symbolic"]


def key(fn: Function, *inputs: torch.Tensor, mode: Mode = "fake") -> Hashable:
    return fingerprint(body(fn, *inputs, mode=mode), frozenset(), ambient_compile_state())


def body(fn: Function, *inputs: torch.Tensor, mode: Mode = "fake") -> fx.GraphModule:
    gm: fx.GraphModule = make_fx(fn, tracing_mode=mode)(*inputs)
    return gm


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def test_names_and_origins_do_not_matter() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    plain, other = body(fn, ones(3)), body(fn, ones(3))
    for i, node in enumerate(other.graph.nodes):
        node.name = f"other_{i}"
        node.meta.update(stack_trace="elsewhere", seq_nr=7, custom={"layer": 3}, from_node=[])
    assert fingerprint(plain, (), ()) == fingerprint(other, (), ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x, y: x * y + 1, lambda x, y: x * y + 2),
        (lambda x, y: x * y + 1, lambda x, y: x * y + 1.0),
        (lambda x, y: x * y + 0.0, lambda x, y: x * y + -0.0),
        (lambda x, y: x - y, lambda x, y: y - x),
        (lambda x, y: x.sum(0, True), lambda x, y: x.sum(0, False)),
        (lambda x, y: (x + y).relu(), lambda x, y: (x + y, (x + y).relu())[1]),
        (lambda x, y: [x + 1, x + 2], lambda x, y: [x + 2, x + 1]),
        (lambda x, y: torch.rand_like(x) + y, lambda x, y: torch.randn_like(x) + y),
        (lambda x, y: x.clone().mul_(2), lambda x, y: x.clone().mul(2)),
        (lambda x, y: x.to(torch.float64), lambda x, y: x.to(torch.float16)),
    ],
    ids=[
        *("constant", "constant's type", "sign of zero", "operand order", "keyword", "dead node"),
        *("result order", "random operator", "mutation", "dtype argument"),
    ],
)
def test_graphs_that_differ(one: Function, other: Function) -> None:
    assert key(one, ones(3, 3), ones(3, 3)) != key(other, ones(3, 3), ones(3, 3))


@pytest.mark.parametrize(
    "other",
    [
        ones(4, 3),
        ones(4, 4).as_strided((4, 4), (1, 4)),
        ones(5, 4)[1:],
        ones(4, 4).double(),
        ones(4, 4).requires_grad_(),
        torch.ones(4, 4, device="meta"),
    ],
    ids=["shape", "stride", "storage offset", "dtype", "requires grad", "device"],
)
def test_operands_that_differ(other: torch.Tensor) -> None:
    def keyed(operand: torch.Tensor) -> Hashable:
        graph = body(torch.sin, ones(4, 4))
        graph.graph.find_nodes(op="placeholder")[0].meta["val"] = operand
        return fingerprint(graph, (), ())

    assert keyed(ones(4, 4)) == keyed(ones(4, 4))
    assert keyed(ones(4, 4)) != keyed(other)


def test_operands_that_share_storage_differ_from_those_that_do_not() -> None:
    graph = body(lambda x, y: x + y, ones(4), ones(4))
    apart = fingerprint(graph, (), ())
    first, second = graph.graph.find_nodes(op="placeholder")
    second.meta["val"] = first.meta["val"].view(4)
    assert fingerprint(graph, (), ()) != apart


def test_symbols_of_different_relations_differ() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum()

    square = key(fn, ones(3, 5), ones(5, 3), mode="symbolic")
    assert square != key(fn, ones(3, 5), ones(7, 9), mode="symbolic")


def test_symbols_of_another_shape_environment_are_others() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert key(fn, ones(3), mode="symbolic") != key(fn, ones(3), mode="symbolic")
    graph = body(fn, ones(3), mode="symbolic")
    assert fingerprint(graph, (), ()) == fingerprint(graph, (), ())


def test_bodies_of_operators_are_compared() -> None:
    def cond(scale: int) -> Function:
        return lambda p, x: torch.cond(p, lambda v: (v * scale,), lambda v: (v.sin(),), (x,))

    p = torch.tensor(True)
    assert key(cond(2), p, ones(3)) == key(cond(2), p, ones(3))
    assert key(cond(2), p, ones(3)) != key(cond(3), p, ones(3))


@pytest.mark.parametrize("name", ["fallback_to_eager", "mempool"])
def test_annotations_by_which_inductor_makes_other_code_matter(name: str) -> None:
    plain, other = body(torch.sin, ones(3)), body(torch.sin, ones(3))
    next(iter(other.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default))).meta[
        "custom"
    ] = {name: True}
    assert fingerprint(plain, (), ()) != fingerprint(other, (), ())


def test_configs_differ() -> None:
    graph = body(torch.sin, ones(3))
    assert fingerprint(graph, frozenset({("a", 1)}), ()) != fingerprint(graph, frozenset(), ())


def grad_off() -> Any:
    return torch.no_grad()


def autocast() -> Any:
    return torch.autocast("cpu")


def config() -> Any:
    from torch._inductor import config

    return config.patch(epilogue_fusion=False)


@contextmanager
def precision_of_matmuls() -> Iterator[None]:
    # To ask for what the older settings say, `allow_tf32` for one, raises from here on.
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    yield
    torch.backends.cuda.matmul.fp32_precision = "none"


@contextmanager
def precision_of_matmuls_as_it_was_set_before() -> Iterator[None]:
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")
    for backend in (torch.backends.cuda, torch.backends.mkldnn):
        backend.matmul.fp32_precision = "none"


@pytest.mark.parametrize(
    "scope",
    [
        grad_off,
        autocast,
        config,
        precision_of_matmuls,
        precision_of_matmuls_as_it_was_set_before,
    ],
)
def test_state_of_the_process_differs(scope: Callable[[], Any]) -> None:
    before = ambient_compile_state()
    with scope():
        assert ambient_compile_state() != before
    assert ambient_compile_state() == before


def test_key_of_a_held_object_is_that_object() -> None:
    graph = fx.Graph()
    held = object()
    graph.output(graph.call_function(torch.sin, (graph.get_attr("thing"),)))
    one = fx.GraphModule({"thing": held}, graph)
    other = fx.GraphModule({"thing": object()}, graph)
    assert fingerprint(one, (), ()) == fingerprint(one, (), ())
    assert fingerprint(one, (), ()) != fingerprint(other, (), ())
