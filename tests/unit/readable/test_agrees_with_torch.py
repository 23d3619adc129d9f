"""On graphs that torch traced, the code is the one that torch's own text shows."""

from __future__ import annotations

import contextlib
import enum
import math
import operator
import typing
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch import Tensor, fx, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion._torch.tracing import aot_autograd, default_partition
from pytest_fxregion.readable import print_readable
from tests.unit.readable.agreement import assert_agrees, code_lines


def graphs_of(fn: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> list[Any]:
    """Every graph on the way of a training step: dynamo's, joint, forward and backward."""
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _inputs: object) -> Any:
        graphs.append(gm)
        return make_boxed_func(gm.forward)

    def partition(gm: fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
        assert_agrees(gm)  # it is changed afterwards
        graphs.append(gm)
        return default_partition(gm, inputs, **kwargs)

    compile_aot = aot_autograd(
        fw_compiler=keep, bw_compiler=keep, inference_compiler=keep, partition_fn=partition
    )

    def backend(gm: fx.GraphModule, inputs: Any) -> Any:
        assert_agrees(gm)
        graphs.append(gm)
        return compile_aot(gm, inputs)

    torch._dynamo.reset()
    out: Any = torch.compile(fn, backend=backend, dynamic=dynamic)(*args)
    values = [value for value in tree_leaves(out) if isinstance(value, Tensor)]
    losses = [value.sum() for value in values if value.requires_grad and not value.is_complex()]
    if losses:
        torch.stack([loss.double() for loss in losses]).sum().backward()
    return graphs


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def nested_cond(x: Tensor) -> Any:
    def inner(a: Tensor) -> Any:
        return torch.cond(a.sum() > 1, lambda b: b * 2, lambda b: b * 3, (a,))

    return torch.cond(x.sum() > 0, lambda a: (a.sin(), inner(a)), lambda a: (a.cos(), a + 1), (x,))


def loop(x: Tensor) -> Any:
    while_loop: Any = torch._higher_order_ops.while_loop
    return while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))


@torch.compiler.nested_compile_region
def block(x: Tensor) -> Tensor:
    return x.sin() * 2


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * 2 * ctx.saved_tensors[0]


def squared(x: Tensor) -> Any:
    apply: Any = Square.apply
    return apply(x) * 2


def unbacked(x: Tensor) -> Any:
    count: Any = x[0].item()
    torch._check(count > 0)
    return torch.zeros(count) * 2, x.nonzero(), count


def scored(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + i - j)


def dropped_out(x: Tensor) -> Any:
    return checkpoint(lambda t: nn.functional.dropout(t.sin(), 0.5), x, use_reentrant=False)


CONSTANT = torch.tensor([1.0, 2.0, 3.0])

TRAINING_STEPS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "pointwise": (lambda x, w: (x.sin() * w + 1).sum(), lambda: (leaf(10), leaf(10))),
    "None and structured outputs": (
        lambda x: (x.sin(), None, [x, {"a": x.cos()}], 3),
        lambda: (leaf(3),),
    ),
    "several outputs of one op": (
        lambda x: torch.topk(x, 2)[0] + torch.var_mean(x, dim=-1, keepdim=True)[0],
        lambda: (leaf(3, 4),),
    ),
    "constants, inf and nan": (
        lambda x: (
            x * torch.tensor([1.0, math.inf, math.nan]) + torch.full((3,), -math.inf) + CONSTANT
        ),
        lambda: (leaf(3),),
    ),
    "dtypes": (
        lambda x: (x.bfloat16(), x.half(), x.to(torch.float8_e4m3fn), x > 0, x.to(torch.uint8)),
        lambda: (torch.rand(3),),
    ),
    "memory format and kwargs": (
        lambda x: (
            x.to(memory_format=torch.channels_last),
            torch.empty(3, dtype=torch.int16, device="cpu", layout=torch.strided, pin_memory=False),
            torch.full((2,), 1e-30, dtype=torch.float64),
        ),
        lambda: (leaf(2, 3, 4, 4),),
    ),
    "complex": (
        lambda x: (x * complex(1, -2.5), x.conj()),
        lambda: (leaf(3, dtype=torch.complex64),),
    ),
    "mutation and randomness": (
        lambda x: (x.mul_(2), x.uniform_())[0],
        lambda: (torch.randn(4),),
    ),
    "indices and slices": (
        lambda x, i: x[i, :, None, ..., ::2].index_put((i,), torch.ones(())),
        lambda: (leaf(4, 6, 8), torch.tensor([0, 1])),
    ),
    "module with buffers": (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        lambda: (leaf(2, 3, 8, 8),),
    ),
    "cond in cond": (nested_cond, lambda: (leaf(4),)),
    "while_loop": (loop, lambda: (torch.randn(3),)),
    "invoke_subgraph": (lambda x: block(block(x)), lambda: (leaf(4),)),
    "flex_attention": (scored, lambda: tuple(torch.randn(1, 1, 128, 16) for _ in range(3))),
    "autograd function": (squared, lambda: (leaf(3),)),
    "checkpointed dropout": (dropped_out, lambda: (leaf(4),)),
    "tensor subclass": (
        lambda x, y: x.sin() * y,
        lambda: (TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_(), leaf(3)),
    ),
}

DYNAMIC_STEPS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "sizes in and out": (
        lambda x, n: (x[:n] * x.shape[0], x.shape[0] * 2, x.view(-1)[::2], x.shape[0] / n),
        lambda: (leaf(6, 4), 3),
    ),
    "a float": (lambda x, scale: x * scale + 1e-5, lambda: (leaf(3), 2.5)),
    "sizes that data decides": (unbacked, lambda: (torch.tensor([3, 4]),)),
    "cond over sizes": (nested_cond, lambda: (leaf(4),)),
}


@pytest.mark.parametrize("step", TRAINING_STEPS)
def test_on_graphs_of_a_training_step(step: str) -> None:
    fn, make_inputs = TRAINING_STEPS[step]
    graphs = graphs_of(fn, *make_inputs())
    assert len(graphs) >= 2
    for gm in graphs:
        assert_agrees(gm)


@pytest.mark.parametrize("step", DYNAMIC_STEPS)
def test_on_graphs_with_symbolic_shapes(step: str) -> None:
    fn, make_inputs = DYNAMIC_STEPS[step]
    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        graphs = graphs_of(fn, *make_inputs(), dynamic=True)
    assert any("Sym(" in print_readable(gm, print_output=False) for gm in graphs)
    for gm in graphs:
        assert_agrees(gm)


def test_on_both_graphs_around_a_graph_break() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    graphs = graphs_of(broken, leaf(3))
    assert len(graphs) == 8
    for gm in graphs:
        assert_agrees(gm)


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_on_make_fx_graphs_with_structured_inputs(tracing_mode: Any) -> None:
    def structured(inputs: dict[str, Any], y: Tensor) -> dict[str, Tensor]:
        return {"a": inputs["x"].sin() + inputs["l"][0] + y + torch.tensor([1, 2, 3])}

    inputs = ({"x": torch.randn(3), "l": [torch.randn(3)]}, torch.randn(3))
    assert_agrees(make_fx(structured, tracing_mode=tracing_mode)(*inputs))


class WithKeyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: Tensor, *, scale: Tensor) -> dict[str, Tensor]:
        return {"out": self.linear(x) * scale + self.offset}


def test_on_exported_programs() -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        WithKeyword(),
        (torch.randn(2, 3),),
        {"scale": torch.randn(3)},
        dynamic_shapes={"x": {0: batch}, "scale": None},
    )
    assert_agrees(program.graph_module)
    assert_agrees(program.run_decompositions().graph_module)
    module = program.module()
    assert isinstance(module, fx.GraphModule)
    assert_agrees(module)


class Mode(enum.Enum):
    FAST = 1


Pair = namedtuple("Pair", "first second")


@fx.wrap
def kept_whole(*args: object, **kwargs: object) -> object:
    return args[0]


class Annotated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: Tensor, y: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
        first: Any = kept_whole(x, y, Mode.FAST, k=math.inf)
        x = self.layers(x.view(-1, 2) + self.weight)
        x += 1
        return torch.relu(-x @ x)[0:1, ...] + torch.add(first, ~(x > 0))


def test_on_symbolically_traced_modules() -> None:
    assert_agrees(fx.symbolic_trace(Annotated()))


@pytest.mark.parametrize(
    "declared",
    [
        int,
        Tensor,
        type(None),
        Mode,
        list[int],
        dict[str, Tensor],
        tuple[int, ...],
        typing.List[int],  # noqa: UP006
        typing.Dict[str, typing.List[Tensor]],  # noqa: UP006
        typing.Optional[Tensor],  # noqa: UP045
        typing.Union[int, Mode],  # noqa: UP007
        "Tensor",
    ],
    ids=str,
)
def test_on_declared_types(declared: Any) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=declared)
    graph.output(x, type_expr=declared)
    assert_agrees(fx.GraphModule({}, graph))


def test_on_every_kind_of_argument_and_function() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    arguments: dict[str, Any] = {
        "device": torch.device("cuda:0"),
        "complex": complex(1, 2),
        "text": "a\"'\n",
        "one": (x,),
        "none": (),
        "range": range(3),
        "size": torch.Size([1, 2]),
        "op": torch.ops.aten.sin.default,
        "hop": torch.ops.higher_order.cond,
        "tensor": torch.ones(2),
        "mapping": {"k": [x, torch.float32]},
    }
    positional: Any = (x, Pair(x, 2), Mode.FAST, torch.contiguous_format, slice(None, x, 2))
    y = graph.call_function(torch.Tensor.add, positional, arguments)
    for function in (
        kept_whole,
        max,
        math.sqrt,
        torch.relu,
        torch.nn.functional.relu,
        torch._C._nn.gelu,
        torch.sparse.mm,
        torch.segment_reduce,
        torch.linalg.norm,
        torch.Tensor.backward,
        torch.Tensor.__add__,
        torch.autograd.grad_mode.set_grad_enabled,
        torch.utils.checkpoint.checkpoint,
        torch._dynamo.graph_break,
        operator.not_,
        operator.neg,
        torch.ops.aten.sin,
    ):
        y = graph.call_function(function, (y,))
    for function in (operator.truediv, operator.and_, operator.getitem, operator.eq, operator.pow):
        y = graph.call_function(function, (x, y))
    for function in (operator.iadd, operator.imatmul):
        y = graph.call_function(function, (x, y))
    y = graph.call_function(operator.setitem, (x, 0, y))
    y = graph.call_function(getattr, (y, "grad"))
    y = graph.call_function(getattr, (y, "grad", None))
    y = graph.call_method("add_", (y, 1), {"alpha": 2})
    graph.output((y, {"o": x}))
    assert_agrees(fx.GraphModule({}, graph))


def graph_that_makes(value: object) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.ops.aten.sin.default, (x,))
    y.meta["val"] = value
    graph.output(y)
    return fx.GraphModule({}, graph)


@contextlib.contextmanager
def process_group_without_peers() -> Iterator[None]:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def test_on_distributed_tensors() -> None:
    placements: list[list[Placement]] = [
        [Shard(0), Replicate(), Partial()],
        [Shard(0), Shard(0), Shard(1)],
        [Replicate(), Shard(0), Shard(0)],
    ]
    with process_group_without_peers():
        mesh = init_device_mesh("cpu", (2, 2, 2))
        for placement in placements:
            local = torch.ones(4, 4)
            value = DTensor.from_local(local, mesh, placement, run_check=False)
            assert_agrees(graph_that_makes(value))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(torch.eye(3).to_sparse(), id="sparse_coo"),
        # torch 2.15 gives it a type, which here does not depend on the version.
        *(
            [pytest.param(torch.eye(3).to_sparse_csr(), id="sparse_csr")]
            if torch.__version__ < (2, 15)  # type: ignore[operator]
            else []
        ),
        pytest.param(torch.nn.Parameter(torch.ones(3)), id="parameter"),
        pytest.param(
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
            id="nested",
        ),
        pytest.param((torch.ones(2), None), id="tuple"),
        pytest.param(3, id="int"),
        pytest.param(None, id="None"),
    ],
)
def test_on_values_that_are_no_plain_tensors(value: object) -> None:
    gm = graph_that_makes(value)
    ours = print_readable(gm, print_output=False)
    torchs = gm.print_readable(print_output=False, include_stride=True, include_device=True)
    # torch counts ragged sizes over the process.
    assert [line.replace("j1", "j?") for line in code_lines(ours)] == [
        line if "NestedTensor" not in line else _without_count(line) for line in code_lines(torchs)
    ]


def _without_count(line: str) -> str:
    first = line.index("j")
    counted = line[first : line.index("]", first)]
    return line.replace(counted, "j?")
