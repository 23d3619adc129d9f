"""Results of compiled pieces have the strides that the graph was traced with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import annotate as annotated

from pytest_fxregion._torch.generated import generated_source
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.regional import compile_regions, regional_inductor
from pytest_fxregion.regional.layout import displaced_results, results_of, with_strides_kept
from tests.unit.regional.annotated_graphs import traced

Tensors = tuple[torch.Tensor, ...]
Function = Callable[[torch.Tensor], torch.Tensor | Tensors]


def transposed() -> torch.Tensor:
    """Shape (2, 4, 6, 8), strides (192, 8, 32, 1)."""
    return torch.linspace(-1, 1, 384).view(2, 6, 4, 8).transpose(1, 2)


def compiled_as_region(fn: Function, x: torch.Tensor) -> torch.fx.GraphModule:
    """All of ``fn`` as one region, without gradients."""
    names = [n.name for n in make_fx(fn, tracing_mode="fake")(x).graph.nodes]
    return compile_regions(traced(fn, x, marks=dict.fromkeys(names, 0))).graph_module


def layouts(values: torch.Tensor | Tensors) -> list[tuple[torch.Size, tuple[int, ...]]]:
    tensors = (values,) if isinstance(values, torch.Tensor) else values
    return [(tensor.shape, tensor.stride()) for tensor in tensors]


KINDS: dict[str, Function] = {
    "chunks": lambda x: (x * 2).chunk(2, 1),
    "one chunk": lambda x: (x * 2).chunk(2, 1)[1],
    "buffer and chunk": lambda x: (y := x * 2, y.chunk(2, 1)[1]),
    "selected": lambda x: (x * 2)[:, 1],
    "permuted": lambda x: (x * 2).permute(3, 0, 2, 1),
    "expanded": lambda x: x[0, 0].t().sin()[:, None].expand(8, 3, 6),
    "viewed as another type": lambda x: (x * 2).view(torch.int32)[:, 1],
    "conjugate": lambda x: torch.complex(x, x).chunk(2, 1)[1].conj(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_results_have_the_strides_of_eager(kind: str) -> None:
    fn, x = KINDS[kind], transposed()
    gm = compiled_as_region(fn, x)
    with torch.no_grad():
        got, expected = gm(x), fn(x)
    assert layouts(got) == layouts(expected)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_so_they_have_where_sizes_are_symbols(kind: str) -> None:
    """And the place in the memory that they share, which is an expression then."""

    def function(x: torch.Tensor) -> torch.Tensor | Tensors:
        with annotated({"compile_with_inductor": 0}):
            return KINDS[kind](x)

    torch._dynamo.reset()
    got = torch.compile(function, backend="fxregion", dynamic=True)(transposed())
    expected = function(transposed())
    assert layouts(got) == layouts(expected)
    torch.testing.assert_close(got, expected)


def places(x: torch.Tensor) -> torch.Tensor:
    """Of what is positive: a row for each, in columns, as ``nonzero`` lays them out."""
    return x.nonzero().float() * 2


FOUND: dict[str, Function] = {
    "columns": lambda x: (y := places(x), torch.cat([y, y]).sum(0)),
    "a view of them": lambda x: ((y := places(x)).t()[1:], torch.cat([y, y]).sum(0)),
    "both": lambda x: (y := places(x), y.t()[1:], torch.stack([y, y * 3], 2).transpose(0, 2)),
    "in another order": lambda x: (places(x)[:, None].permute(2, 0, 1) + 1).transpose(0, 1),
}


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("kind", FOUND)
def test_so_they_have_where_only_running_tells_the_sizes(kind: str, count: int) -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        with annotated({"compile_with_inductor": 0}):
            found = FOUND[kind](x)
        results = (found,) if isinstance(found, torch.Tensor) else found
        with annotated({"compile_with_inductor": {"inductor_region": "another"}}):
            return (results, [result.cos() for result in results])

    torch._dynamo.reset()
    x = torch.zeros(4, 5)
    x.view(-1)[:count] = 1
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got, of_got = torch.compile(function, backend="fxregion", fullgraph=True)(x)
    expected, of_expected = function(x)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        # That of a single element, or of none, is anything.
        matter = [i for i, size in enumerate(one.shape) if size > 1 and one.numel()]
        assert [one.stride(i) for i in matter] == [other.stride(i) for i in matter]
    torch.testing.assert_close((got, of_got), (expected, of_expected))


def halves(x: torch.Tensor) -> Tensors:
    with annotated({"compile_with_inductor": 0}):
        h = x.t() * 2
        one, other = h[: x.shape[1] // 2], h[x.shape[1] // 2 :]
    with annotated({"compile_with_inductor": {"inductor_region": "another"}}):
        return one + 1, other.sin(), other


@pytest.mark.parametrize("time", ["first", "second"])
def test_so_they_have_where_strides_alone_tell_a_size(time: str) -> None:
    """Of a region that torch's cache serves, less is known of the symbols after it."""
    torch._dynamo.reset()
    x = torch.linspace(-1, 1, 44).view(4, 11)
    got = torch.compile(halves, backend="fxregion", dynamic=True)(x)
    assert layouts(got) == layouts(halves(x))
    torch.testing.assert_close(got, halves(x))


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x = x.transpose(1, 2)
    with annotated({"compile_with_inductor": 0}):
        q, k = (x * w).chunk(2, dim=1)
        return q.sin() @ k.transpose(-1, -2)


def expanded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with annotated({"compile_with_inductor": 0}):
        rows = (x.transpose(1, 2) * w)[:, :, :1].expand(-1, -1, 3, -1)
    y = rows.sin()
    with annotated({"compile_with_inductor": 1}):
        return (y * w).cos() * rows


def permuted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with annotated({"compile_with_inductor": 0}):
        y = (x.transpose(1, 2) * w).permute(3, 0, 2, 1)[1:5]
    z = y.sin()
    with annotated({"compile_with_inductor": 1}):
        return z.cos() * y


@pytest.mark.parametrize(
    ("fn", "dynamic"),
    [(attention, False), (attention, True), (expanded, False), (permuted, False)],
)
def test_forward_and_backward_match_eager(fn: Callable[..., torch.Tensor], dynamic: bool) -> None:
    def inputs() -> list[torch.Tensor]:
        x, w = torch.linspace(-1, 1, 384).view(2, 6, 4, 8), torch.linspace(1, 2, 8)
        return [x.requires_grad_(), w.requires_grad_()]

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=regional_inductor, bw_compiler=regional_inductor)
    got, expected = inputs(), inputs()
    result = torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)(*got)
    wanted = fn(*expected)
    torch.testing.assert_close(result, wanted)
    assert result.stride() == wanted.stride()
    result.square().sum().backward()
    wanted.square().sum().backward()
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_chunk_is_no_copy() -> None:
    gm = compiled_as_region(KINDS["chunks"], transposed())
    with torch.no_grad():
        one, other = gm(transposed())
    assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    (call,) = (n.target for n in gm.graph.nodes if hasattr(n.target, "fxregion_region"))
    assert generated_source(call.__wrapped__).count("empty_strided_cpu(") == 1


def test_lean_call_of_a_view_and_one_compile_of_what_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies: list[torch.fx.GraphModule] = []
    compile_ = torch._inductor.standalone_compile

    def counted(body: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        bodies.append(body)
        return compile_(body, *args, **kwargs)

    monkeypatch.setattr(torch._inductor, "standalone_compile", counted)
    torch._dynamo.reset()
    compiled_as_region(KINDS["permuted"], transposed())
    assert len(bodies) == 1
    gm = compiled_as_region(KINDS["one chunk"], transposed())
    assert len(bodies) == 3
    (call,) = (n.target for n in gm.graph.nodes if hasattr(n.target, "fxregion_region"))
    assert [str(n.target) for n in bodies[2].graph.nodes][-2] == "aten.as_strided.default"
    assert call.fxregion_region.body is bodies[1]
    call.__wrapped__ = None
    x = transposed()
    with torch.no_grad():
        assert layouts(call(x)) == [((2, 2, 6, 8), (192, 8, 32, 1))]


def test_only_strides_that_matter_are_compared() -> None:
    body = make_fx(lambda x: ((x * 2)[:, :1], (x * 2)[:0]), tracing_mode="fake")(transposed())
    assert displaced_results(body, None) == []
    assert displaced_results(body, [(1, 1, 1, 1)]) == []  # not one for each
    assert displaced_results(body, [(192, 7, 32, 1), (7, 7, 7, 7)]) == []
    assert displaced_results(body, [None, None]) == []
    assert displaced_results(body, [(48, 8, 8, 1), None]) == results_of(body)[:1]


def test_body_is_left_as_it_is() -> None:
    body = make_fx(KINDS["chunks"], tracing_mode="fake")(transposed())
    before = body.print_readable(print_output=False)
    kept = with_strides_kept(body, results_of(body))
    assert body.print_readable(print_output=False) == before
    assert layouts(kept(transposed())) == layouts(KINDS["chunks"](transposed()))
