"""Options of ``torch.compiler.nested_compile_region`` make each of its calls a region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.invoke_subgraph import (
    NestedCompileRegionOptions,
    get_invoke_subgraph_compile_options,
)
from torch.compiler import nested_compile_region
from torch.fx.traceback import annotate

from pytest_fxregion import AnnotationError
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.capture.record import Compilation
from tests.unit.regional.annotated_graphs import Compiles


@pytest.fixture(autouse=True)
def options_allowed() -> Iterator[None]:
    """Torch takes the options only where this is set (2.11 to 2.15)."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(enable_invoke_subgraph_regional_compile=True):
        yield
    torch._dynamo.reset()


def options(*configs: dict[str, Any], **others: Any) -> Any:
    return get_invoke_subgraph_compile_options(*configs, **others)


def scaled(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).tanh() + 1


def compiled(function: Callable[..., Tensor]) -> Compilation:
    """Run forward and backward, hold them to eager, and return what was recorded."""
    gradients = []
    capture = Capture()
    for run in (function, torch.compile(function, backend=RegionalBackend(capture))):
        leaves = [torch.linspace(-1, 1, 6, requires_grad=True) for _ in range(2)]
        run(*leaves).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*gradients)
    return capture.result()


def test_each_call_is_a_region_and_equal_ones_are_compiled_once(compiles: Compiles) -> None:
    layer = nested_compile_region(scaled, options=options())
    (graph,) = compiled(lambda x, w: layer(layer(x.sin(), w), w).sin()).graphs
    assert graph.forward is not None
    assert graph.backward is not None
    for stage in (graph.forward, graph.backward):
        first, second = stage.regions
        assert first.label == second.label == "nested"
        assert second.shared_with == first.name
        assert first.configs == {}
    assert len(compiles.bodies) == 2
    assert "# region: nested\n" in graph.forward.text
    assert "NestedCompileRegionOptions" not in graph.forward.text


def test_inductors_configuration_of_the_options_is_the_regions(compiles: Compiles) -> None:
    layer = nested_compile_region(scaled, options=options({"max_autotune": True}))
    compilation = compiled(lambda x, w: layer(x, w).sin())
    assert [region.configs for region in compilation.regions] == [{"max_autotune": True}] * 2
    (graph,) = compilation.graphs
    assert graph.backward is not None
    assert "# inductor_configs: {'max_autotune': True}\n" in graph.backward.text


def test_a_call_inside_of_a_nested_region_without_options_is_found(compiles: Compiles) -> None:
    inner = nested_compile_region(scaled, options=options())
    outer = nested_compile_region(lambda x, w: inner(x, w).sin())
    compilation = compiled(lambda x, w: outer(outer(x, w), w))
    assert {region.label for region in compilation.regions} == {"nested"}
    assert len(compiles.bodies) == 2


def test_an_annotation_of_the_call_goes_before_its_options(compiles: Compiles) -> None:
    layer: Callable[..., Tensor] = nested_compile_region(scaled, options=options())

    def taken_whole(x: Tensor, w: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": {"inductor_region": "r"}}):
            return layer(layer(x, w), w)

    def taken_out(x: Tensor, w: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": None}):
            return layer(x, w)

    assert [region.label for region in compiled(taken_whole).regions] == ["'r'", "'r'"]
    assert compiled(taken_out).regions == ()


def test_options_that_name_no_compiler_ask_for_nothing(compiles: Compiles) -> None:
    layer = nested_compile_region(scaled, options=NestedCompileRegionOptions())
    assert compiled(lambda x, w: layer(x, w).sin()).regions == ()


def test_another_compiler_than_inductor_is_one_clear_error() -> None:
    def mine(gm: Any, inputs: Any, **_: Any) -> Any:
        raise NotImplementedError

    layer = nested_compile_region(scaled, options=NestedCompileRegionOptions(mine, mine))
    with pytest.raises(Exception, match=r"test_nested_region_options\.py:\d+") as raised:
        compiled(lambda x, w: layer(x, w).sin())
    assert AnnotationError.__name__ in f"{type(raised.value)} {raised.value}"
    assert "a compiler of its own" in str(raised.value)
