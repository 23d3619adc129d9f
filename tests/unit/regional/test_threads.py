"""Threads that compile at once: a backward runs in a thread of its own, a server has several."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._inductor.async_compile import AsyncCompile

from pytest_fxregion import backend
from pytest_fxregion._torch.artifacts import cpp_kernels
from pytest_fxregion._torch.inductor import kernels_awaited_later
from pytest_fxregion._torch.tracing import joint_compile
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.tracing import joint_graph_passes
from pytest_fxregion.regional import compile_regions
from pytest_fxregion.regional.artifacts import ARTIFACTS
from tests.unit.regional.annotated_graphs import region, traced

X = torch.linspace(0, 1, 4)


def test_they_compile_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most: list[int] = []

    def compile_slowly(body: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
        inside.append(1)
        time.sleep(0.02)
        most.append(len(inside))
        inside.pop()
        return body

    monkeypatch.setattr(torch._inductor, "standalone_compile", compile_slowly)
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    before = (AsyncCompile.wait, AsyncCompile.cpp_pybinding)
    graphs = [traced(scaled(i), X, marks={"mul": region(0)}) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compile_regions, graphs))
    assert most == [1, 1, 1, 1]
    assert (AsyncCompile.wait, AsyncCompile.cpp_pybinding) == before
    for i, compiled in enumerate(found):
        torch.testing.assert_close(compiled.graph_module(X), scaled(i)(X))


def test_a_graph_is_traced_after_what_another_thread_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Both replace the pass for Python floats; the one that came first left with the other's inside,
    # so that no later graph of the process had the pass.
    inside = threading.Event()

    def compile_slowly(body: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
        inside.set()
        time.sleep(0.2)
        return body

    before = joint_compile.tensorify_python_scalars  # type: ignore[attr-defined]
    monkeypatch.setattr(joint_compile, "tensorify_python_scalars", before)
    monkeypatch.setattr(torch._inductor, "standalone_compile", compile_slowly)
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    graph = traced(scaled(2), X, marks={"mul": region(0)})
    other = threading.Thread(target=compile_regions, args=(graph,))
    other.start()
    assert inside.wait(60)
    monkeypatch.setattr(backend, "aot_autograd", lambda **_: lambda *_: other.join())
    RegionalBackend()(graph, [X])
    assert joint_compile.tensorify_python_scalars is before  # type: ignore[attr-defined]


def test_another_thread_compiles_while_a_scope_of_joint_graph_passes_waits_for_it() -> None:
    # As autograd's threads do on a GPU for a backward whose sizes are symbols.
    graph = traced(scaled(2), X, marks={"mul": region(0)})
    backward = threading.Thread(target=compile_regions, args=(graph,))
    with joint_graph_passes():
        backward.start()
        backward.join(60)
        assert not backward.is_alive()


def scaled(factor: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: (x * factor).sin()


def test_what_another_thread_compiles_meanwhile_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[int] = []
    built: list[int] = []
    monkeypatch.setattr(AsyncCompile, "wait", lambda *_: waited.append(threading.get_ident()))
    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", lambda *_: built.append(1))
    made: dict[str, Callable[[], str]] = {}

    def compile_something() -> None:
        compiler = AsyncCompile()
        compiler.cpp_pybinding([], "source")
        compiler.wait({})

    with kernels_awaited_later() as waiting, cpp_kernels(made, {}):
        other = threading.Thread(target=compile_something)
        other.start()
        other.join()
        assert (len(waited), len(built), waiting, made) == (1, 1, [], {})
        compile_something()
    assert (len(waited), len(built), len(waiting), len(made)) == (1, 2, 1, 1)
