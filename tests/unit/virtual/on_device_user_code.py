"""Code that was written for CUDA runs as it is."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def test_tensors_and_modules_move_to_the_device() -> None:
    x = torch.randn(3)
    for moved in (x.cuda(), x.to("cuda"), x.to("cuda:0"), x.cuda(0), torch.as_tensor(x, device=0)):
        assert moved.device == torch.device("cuda:0")
        assert moved.is_cuda
        assert torch.equal(moved.cpu(), x)
    layer = nn.Linear(3, 2).cuda()
    assert layer(x.cuda()).is_cuda
    assert layer.cpu().weight.device.type == "cpu"


def test_default_device_and_device_context() -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).is_cuda
        assert torch.randn(3).is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.arange(3).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda
    assert not torch.ones(2).is_cuda


def test_torch_cuda_answers_and_bookkeeping() -> None:
    cuda = torch.cuda
    assert cuda.is_available()
    assert cuda.is_initialized()
    assert cuda.device_count() == 1
    assert cuda.current_device() == 0
    assert cuda.get_device_capability() == (9, 0)
    assert cuda.is_bf16_supported()
    assert cuda.is_tf32_supported()
    cuda.synchronize()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    cuda.set_device(0)
    with cuda.device(0):
        assert cuda.current_device() == 0
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    assert accelerator.type == "cuda"


def test_a_second_device_is_not_there() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:1")


def test_generators_repeat_and_keep_apart_from_the_cpu() -> None:
    generator = torch.Generator(device="cuda").manual_seed(3)
    first = torch.randn(5, device="cuda", generator=generator)
    assert torch.equal(first, torch.randn(5, device="cuda", generator=generator.manual_seed(3)))
    assert not torch.equal(first, torch.randn(5, device="cuda", generator=generator))
    assert generator.device.type == "cuda"
    on_cpu = torch.get_rng_state()
    torch.randn(5, device="cuda")
    functional.dropout(torch.ones(5, device="cuda"))
    torch.native_dropout(torch.ones(5, device="cuda"), 0.5, True)
    assert torch.equal(on_cpu, torch.get_rng_state())
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.randn(3, device="cuda", generator=torch.Generator())


def test_rng_state_is_sixteen_bytes_that_can_be_put_back() -> None:
    state = torch.cuda.get_rng_state()
    assert state.numel() == 16
    assert state.device.type == "cpu"
    first = torch.rand(5, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(5, device="cuda"))
    with torch.random.fork_rng():
        torch.rand(3, device="cuda")
    torch.manual_seed(1)
    third = torch.randperm(9, device="cuda")
    torch.cuda.manual_seed(1)
    assert torch.equal(third, torch.randperm(9, device="cuda"))


def test_every_random_operator_runs() -> None:
    x = torch.empty(1000, device="cuda")
    for fill in (x.normal_, x.uniform_, x.exponential_, x.cauchy_, x.log_normal_, x.random_):
        fill()
    x.geometric_(0.5)
    x.bernoulli_(0.5)
    assert set(x.unique().tolist()) == {0.0, 1.0}
    torch.multinomial(torch.ones(5, device="cuda"), 3)
    torch.poisson(x)
    torch.normal(x, 1.0)
    torch.randint(0, 5, (3,), device="cuda")
    functional.rrelu(x, training=True)
    functional.alpha_dropout(x)


def test_autocast_gives_the_device_its_own_types() -> None:
    a = torch.ones(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        assert a.softmax(-1).dtype == torch.float32
    with torch.autocast("cuda"):
        assert (a @ a).dtype == torch.float16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.float32


def test_autocast_is_in_the_graph_that_is_traced() -> None:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.extend(inputs)
        return graph.forward

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x @ x

    assert torch.compile(function, backend=backend)(torch.ones(4, 4, device="cuda")).dtype == (
        torch.bfloat16
    )


def test_gradient_scaler() -> None:
    layer = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    before = layer.weight.detach().clone()
    with torch.autocast("cuda"):
        loss = layer(torch.ones(2, 4, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, layer.weight)


FOREACH = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]
# Fused Adagrad is for the CPU alone in torch 2.11.
FUSED = ["SGD", "Adam", "AdamW", *(["Adagrad"] if torch.__version__ >= (2, 13) else [])]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in (*FOREACH, "LBFGS")),
        *((kind, {"foreach": True}) for kind in FOREACH),
        *((kind, {"fused": True}) for kind in FUSED),
    ],
)
def test_optimizers_step_as_on_the_cpu(kind: str, options: dict[str, bool]) -> None:
    layer = nn.Linear(4, 3)
    layers = [layer, copy.deepcopy(layer).cuda()]
    for module in layers:
        optimizer = getattr(torch.optim, kind)(module.parameters(), lr=0.1, **options)
        x = torch.ones(2, 4, device=module.weight.device)

        def closure(
            module: nn.Linear = module, x: torch.Tensor = x, optimizer: Any = optimizer
        ) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = (module(x) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
    for a, b in zip(*(module.parameters() for module in layers), strict=True):
        torch.testing.assert_close(b.cpu(), a)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_draws_the_same_mask_again(reentrant: bool) -> None:
    x = torch.randn(64, device="cuda", requires_grad=True)
    y = checkpoint(lambda a: functional.dropout(a, 0.5) * a, x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y != 0, 4 * x, 0 * x).detach())


def test_pinned_memory_is_known_as_such() -> None:
    assert torch.randn(4, pin_memory=True).is_pinned()
    pinned = torch.randn(4).pin_memory()
    assert pinned.is_pinned()
    assert not torch.randn(4).is_pinned()
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), pinned)
    for (batch,) in DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=4, pin_memory=True):
        assert batch.is_pinned()


def test_streams_and_events_keep_their_order() -> None:
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    default = torch.cuda.current_stream()
    assert default == torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        x = torch.ones(3, device="cuda")
        event.record()
    assert torch.cuda.current_stream() == default
    default.wait_stream(stream)
    default.wait_event(event)
    x.record_stream(default)
    event.synchronize()
    stream.synchronize()
    assert stream.query()
    assert event.query()
    assert stream != torch.cuda.Stream()


def test_marks_and_memory_reports_are_as_on_a_gpu() -> None:
    with torch.cuda.nvtx.range("a range"):
        torch.cuda.nvtx.mark("a mark")
        x = torch.ones(3, device="cuda")
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.current"] >= 1
    assert stats["allocated_bytes.all.allocated"] >= stats["allocated_bytes.all.peak"] >= 512
    assert stats["num_ooms"] == 0
    del x


def test_saving_and_loading_keeps_the_device_and_the_sharing() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).cuda()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert state["0.weight"].is_cuda
    torch.testing.assert_close(state, module.state_dict())
    file.seek(0)
    assert torch.load(file, map_location="cpu")["0.weight"].device.type == "cpu"
    base = torch.arange(6.0, device="cuda")
    file = io.BytesIO()
    torch.save([base, base[2:]], file)
    file.seek(0)
    whole, part = torch.load(file)
    part.zero_()
    assert whole[3] == 0
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    assert torch.load(file, map_location="cuda").is_cuda
    assert pickle.loads(pickle.dumps(base)).device == base.device


def test_deep_copies_have_memory_of_their_own() -> None:
    module = nn.Linear(2, 2).cuda()
    other = copy.deepcopy(module)
    other.weight.data.zero_()
    assert module.weight.abs().sum() > 0


def test_values_come_to_python() -> None:
    x = torch.tensor([1.5, 2], device="cuda")
    assert x.sum().item() == 3.5
    assert x.tolist() == [1.5, 2.0]
    assert x.cpu().numpy()[0] == 1.5
    assert int(x[1]) == 2
    assert bool((x > 0).all())
    assert repr(x) == "tensor([1.5000, 2.0000], device='cuda:0')"
    with pytest.raises(TypeError, match="can't convert cuda"):
        x.numpy()


MODULES: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: nn.Conv1d(3, 4, 3), (2, 3, 8)),
    (lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 8)),
    (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 8, 8)),
    (lambda: nn.Conv3d(3, 4, 3), (2, 3, 4, 4, 4)),
    (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 8, 8)),
    (lambda: nn.BatchNorm2d(3), (2, 3, 8, 8)),
    (lambda: nn.GroupNorm(3, 3), (2, 3, 8, 8)),
    (lambda: nn.InstanceNorm2d(3), (2, 3, 4, 4)),
    (lambda: nn.MaxPool2d(2), (2, 3, 8, 8)),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0), (4, 2, 8)),
    (lambda: nn.LSTM(4, 5, 2, bidirectional=True), (3, 2, 4)),
    (lambda: nn.GRU(4, 5), (3, 2, 4)),
    (lambda: nn.RNN(4, 5), (3, 2, 4)),
    (lambda: nn.LSTMCell(4, 5), (2, 4)),
]


@pytest.mark.parametrize("case", range(len(MODULES)))
def test_modules_compute_as_on_the_cpu(case: int) -> None:
    make, shape = MODULES[case]
    module = make()
    sample = torch.randn(shape)

    def run(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        x = x.clone().requires_grad_()
        out = module(x)
        out = out[0] if isinstance(out, tuple) else out
        out.square().sum().backward()
        assert x.grad is not None
        grads = [p.grad.cpu() for p in module.parameters() if p.grad is not None]
        return [out.detach().cpu(), x.grad.cpu(), *grads]

    other = copy.deepcopy(module).cuda()
    torch.testing.assert_close(run(other, sample.cuda()), run(module, sample), rtol=1e-4, atol=1e-4)


def test_a_real_device_would_refuse_mixed_devices_and_so_does_this_one() -> None:
    x, y = torch.ones(3, device="cuda"), torch.ones(3)
    x + torch.tensor(1.0)  # a number of no dimension may come from the CPU
    x[torch.tensor([0, 1])]  # so may indices
    refused: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: torch.cat([x, y]),
        lambda: torch.stack([x, y]),
        lambda: torch.mm(x[None], y[:, None]),
        lambda: functional.linear(torch.ones(2, 3), torch.ones(2, 3, device="cuda")),
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match="same device"):
            call()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("with_last_offset", [False, True])
def test_bags_of_embeddings_have_the_sizes_that_a_gpu_gives(
    mode: str, with_last_offset: bool
) -> None:
    bag: Any = nn.EmbeddingBag(7, 3, mode=mode, include_last_offset=with_last_offset)
    on_device = copy.deepcopy(bag).cuda()
    indices, offsets = torch.tensor([0, 3, 3, 6, 1]), torch.tensor([0, 2, 5])
    expected = bag(indices, offsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Inductor imports what torch itself deprecates
        compiled: Any = torch.compile(on_device, backend="inductor")
        got = compiled(indices.cuda(), offsets.cuda())
    torch.testing.assert_close(got.cpu(), expected)
    torch.autograd.backward((expected.sin().sum(), got.sin().sum()))
    torch.testing.assert_close(on_device.weight.grad.cpu(), bag.weight.grad)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("with_last_offset", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_all_that_a_bag_of_embeddings_gives_is_as_it_is_traced(
    mode: int, with_last_offset: bool, dtype: torch.dtype
) -> None:
    table = torch.randn(7, 3, device="cuda")
    indices = torch.tensor([0, 3, 3, 6, 1], device="cuda", dtype=dtype)
    offsets = torch.tensor([0, 2, 5], device="cuda", dtype=dtype)
    options = (False, mode, False, None, with_last_offset, -1)
    with FakeTensorMode() as fake:
        given = [fake.from_tensor(tensor) for tensor in (table, indices, offsets)]
    operators: list[Any] = [torch._embedding_bag, torch._embedding_bag_forward_only]
    for operator in operators:
        with fake:
            traced = [(t.shape, t.dtype) for t in operator(*given, *options)]
        found = operator(table, indices, offsets, *options)
        assert [(t.shape, t.dtype) for t in found] == traced
        assert found[1].tolist() == [0, 0, 1, 1, 1]


def test_function_transforms_and_modes() -> None:
    x = torch.randn(3, device="cuda")
    assert torch.equal(torch.func.grad(lambda t: t.sin().sum())(x), x.cos())
    torch.testing.assert_close(torch.func.vmap(lambda t: t * 2)(x), x * 2)
    torch.func.jacrev(torch.sin)(x)
    with torch.inference_mode():
        y = torch.ones(3, device="cuda")
        assert y.is_inference()
        (y + 1).view(3).add_(1)


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("error")
def test_losses_warn_of_nothing(name: str) -> None:
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    loss = getattr(functional, name)
    torch.set_warn_always(True)
    try:
        on_device = loss(x.cuda(), y.cuda())
        on_device.backward()
    finally:
        torch.set_warn_always(False)
    assert torch.equal(on_device.cpu(), loss(x, y))
