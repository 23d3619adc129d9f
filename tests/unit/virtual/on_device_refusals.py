"""What has no meaning without hardware raises one error, which says what it was and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton.testing
from torch._inductor.runtime.benchmarking import benchmarker
from torch.fx.traceback import annotate
from torch.testing._internal.distributed.fake_pg import FakeStore

from pytest_fxregion.errors import DeviceError

dist: Any = torch.distributed  # its own list of names is not complete


def _ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, device="cuda")


def _two_events(kind: Any) -> Any:
    events = kind(), kind()
    for event in events:
        event.record()
    return events[0].elapsed_time(events[1])


def _graph() -> None:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        _ones(2)


def _process_group(backend: str | None) -> None:
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def _embedding_with_sparse_gradient() -> None:
    table = torch.nn.Embedding(5, 3, sparse=True).cuda()
    table(torch.tensor([1], device="cuda")).sum().backward()


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "CUDA graph": ("CUDA graphs", lambda: torch.cuda.CUDAGraph()),
    "capture": ("CUDA graphs", _graph),
    "graphed callables": (
        "CUDA graphs",
        lambda: torch.cuda.make_graphed_callables(torch.nn.Linear(2, 2).cuda(), (_ones(2),)),
    ),
    "time between events": (
        "torch.cuda.Event.elapsed_time",
        lambda: _two_events(lambda: torch.cuda.Event(enable_timing=True)),
    ),
    "time between generic events": (
        "torch.Event.elapsed_time",
        lambda: _two_events(lambda: torch.Event("cuda", enable_timing=True)),
    ),
    "Triton's timing": ("timing a kernel", lambda: triton.testing.do_bench(lambda: _ones(2))),
    "Inductor's timing": (
        "elapsed_time|timing a kernel",
        lambda: benchmarker.benchmark_gpu(lambda: _ones(2)),
    ),
    "NCCL": ("a process group of NCCL", lambda: _process_group("nccl")),
    "the default process group": ("a process group of NCCL", lambda: _process_group(None)),
    "COO": ("dense tensors only", lambda: _ones(2, 2).to_sparse()),
    "COO by indices": (
        "dense tensors only",
        lambda: torch.sparse_coo_tensor(torch.eye(2).long(), [1.0, 2.0], (2, 2), device="cuda"),
    ),
    "COO from the host": ("dense tensors only", lambda: torch.eye(2).to_sparse().cuda().sum()),
    "CSR": ("dense tensors only", lambda: _ones(2, 2).to_sparse_csr()),
    "CSR from the host": ("dense tensors only", lambda: torch.eye(2).to_sparse_csr().cuda().sum()),
    "sparse gradient": ("dense tensors only", _embedding_with_sparse_gradient),
    "nested": (
        "dense tensors only",
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda").unbind(),
    ),
    "CUDA C++ at run time": (
        "torch.cuda.jiterator",
        lambda: torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")(
            _ones(2)
        ),
    ),
    "memory history": ("memory history", torch.cuda.memory._record_memory_history),
    "a stream of a driver": ("ExternalStream", lambda: torch.cuda.ExternalStream(0)),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_it_is_refused_by_name_with_what_to_do(name: str) -> None:
    what, ask = REFUSED[name]
    with pytest.raises(DeviceError, match=what) as caught:
        ask()
    assert "the virtual CUDA device has no hardware" in str(caught.value)
    assert "a GPU" in str(caught.value)


@pytest.mark.parametrize("kind", ["CUDAGraph", "ExternalStream"])
def test_a_refused_class_can_be_named_in_annotations(kind: str) -> None:
    # As transformers does while it is imported.
    refused = getattr(torch.cuda, kind)
    assert not isinstance(None, refused)
    assert refused | None


def _causes(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("where", ["mode", "region"])
def test_graphs_that_the_compiler_would_make_are_refused(where: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": {"inductor_configs": {"triton.cudagraphs": True}}}):
            return x.sin() + 1

    options: dict[str, Any] = {"mode": "reduce-overhead"}
    if where == "region":
        options = {"backend": "fxregion"}
    compiled = torch.compile(function, **options)
    with pytest.raises(Exception, match="CUDA graphs") as caught:
        compiled(_ones(4))
    assert any(isinstance(error, DeviceError) for error in _causes(caught.value))


def test_collectives_can_be_traced_with_the_fake_backend() -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        x = _ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [1.0, 1.0]
    finally:
        dist.destroy_process_group()


def test_gloo_moves_tensors_of_the_host_only() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        host = torch.ones(2)
        dist.all_reduce(host)
        assert host.tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="No backend type associated with device type cuda"):
            dist.all_reduce(_ones(2))
    finally:
        dist.destroy_process_group()


def test_a_jagged_tensor_is_dense_inside() -> None:
    parts = [torch.ones(2), torch.ones(3)]
    jagged = torch.nested.nested_tensor(parts, device="cuda", layout=torch.jagged)
    assert [part.tolist() for part in jagged.sin().unbind()] == [[*p.sin().tolist()] for p in parts]
