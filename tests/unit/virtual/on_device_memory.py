"""Whose memory it is: views, in-place and out= arguments, storages, and that nothing is kept."""

import gc
import threading
from pathlib import Path

import torch


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_views_share_memory() -> None:
    x = torch.zeros(4, 4, device="cuda")
    x[1].add_(1)
    assert x[1].sum() == 4
    x.t()[0].fill_(7)
    assert x[0, 0] == 7
    flat = x.view(-1)
    flat[5] = 9
    assert x[1, 1] == 9
    first, _ = x.chunk(2)
    first.zero_()
    assert x[:2].sum() == 0
    assert flat._base is x
    assert flat.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_an_out_argument_that_grows_keeps_its_identity_and_its_views() -> None:
    out = torch.empty(0, device="cuda")
    result = torch.arange(5, out=out, dtype=torch.float32)
    assert result is out
    assert out.tolist() == [0, 1, 2, 3, 4]
    storage = out.untyped_storage()
    torch.add(torch.ones(9, device="cuda"), 1, out=out)
    assert storage.nbytes() == 36
    assert torch.empty(0, device="cuda").set_(storage, 0, (9,), (1,)).sum() == 18


def test_set_and_resize() -> None:
    x = torch.arange(10.0, device="cuda")
    y = torch.ops.aten.set_.source_Tensor(torch.empty(0, device="cuda"), x)
    y[0] = 5
    assert x[0] == 5
    z = torch.empty(0, device="cuda").set_(x.untyped_storage(), 2, (3,), (1,))
    z.fill_(-1)
    assert x.tolist()[2:5] == [-1, -1, -1]
    x.resize_(2, 2)
    assert x.shape == (2, 2)
    x.data = torch.ones(3, device="cuda")
    assert x.sum() == 3


def test_a_storage_can_be_freed_and_given_back() -> None:
    x = torch.arange(10.0, device="cuda")
    storage = x.untyped_storage()
    before = storage.cpu()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(40)
    storage.copy_(before)
    assert x.tolist() == list(map(float, range(10)))
    assert storage.clone().device.type == "cuda"
    assert torch.UntypedStorage(8, device="cuda").nbytes() == 8
    assert torch.UntypedStorage(8).device.type == "cpu"


def test_real_imaginary_and_conjugate_are_views() -> None:
    x = torch.complex(torch.ones(3, device="cuda"), torch.ones(3, device="cuda"))
    x.real.zero_()
    assert x.abs().sum() == 3
    assert x.conj().is_conj()
    assert x.conj().imag.sum() == -3
    assert x.conj().resolve_conj()[0] == -1j


def test_tensors_that_stand_for_zeros_have_no_memory_to_read() -> None:
    x = torch.randn(4, device="cuda", requires_grad=True)
    (grad,) = torch.autograd.grad(torch.sgn(x).sum(), x)
    assert grad.tolist() == [0, 0, 0, 0]


def test_channels_last_stays() -> None:
    layer = torch.nn.Conv2d(3, 4, 3).cuda()
    x = torch.randn(2, 3, 8, 8, device="cuda").to(memory_format=torch.channels_last)
    assert layer(x).is_contiguous(memory_format=torch.channels_last)
    assert layer(x.contiguous()).is_contiguous()


def test_threads_run_backward_at_once() -> None:
    failures = []

    def work() -> None:
        try:
            for _ in range(20):
                x = torch.randn(50, 50, device="cuda", requires_grad=True)
                (x @ x).sum().backward()
                assert x.grad is not None
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_memory_is_given_back() -> None:
    def step() -> None:
        x = torch.randn(256, 256, device="cuda", requires_grad=True)
        (x @ x).relu().sum().backward()
        grown = torch.empty(0, device="cuda")
        torch.add(x.detach(), 1, out=grown)
        x.detach()[3:].add_(1)
        grown.untyped_storage().resize_(0)
        torch.ops.aten.set_.source_Tensor(torch.empty(0, device="cuda"), x.detach())
        torch.ones(1000, pin_memory=True)

    for _ in range(30):
        step()
    gc.collect()
    before = _resident_bytes()
    for _ in range(300):  # 300 MB and more, were it kept
        step()
    gc.collect()
    assert _resident_bytes() - before < 20_000_000


def test_memory_is_counted_as_cuda_counts_it() -> None:
    gc.collect()
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")  # 4000 bytes: eight blocks of 512
    assert torch.cuda.memory_allocated() == before + 4096
    y = x * 2
    view = y[1:]
    assert torch.cuda.memory_allocated() == before + 8192
    del x, y
    assert torch.cuda.memory_allocated() == before + 4096
    assert torch.cuda.max_memory_allocated() >= before + 8192
    view.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == before
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    out = torch.empty(0, device="cuda")
    torch.arange(2000, out=out, dtype=torch.float32)
    assert torch.cuda.memory_allocated() == before + 8192


def test_a_checkpoint_saves_memory_that_can_be_seen() -> None:
    from torch.utils.checkpoint import checkpoint

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = x.sin().exp()
        return x

    def held(recompute: bool) -> int:
        x = torch.ones(10_000, device="cuda", requires_grad=True)
        gc.collect()
        before = torch.cuda.memory_allocated()
        y = checkpoint(chain, x, use_reentrant=False) if recompute else chain(x)
        assert y.requires_grad
        return torch.cuda.memory_allocated() - before

    assert held(recompute=True) * 8 <= held(recompute=False)


def test_results_outlive_their_arguments() -> None:
    def build() -> torch.Tensor:
        x = torch.arange(1000.0, device="cuda")
        return (x * 2).view(10, 100)[3:5].t()

    y = build()
    gc.collect()
    junk = [torch.full((1000,), -1.0, device="cuda") for _ in range(20)]
    assert y[0].tolist() == [600.0, 800.0]
    assert len(junk) == 20


def test_the_backward_runs_on_the_calling_thread() -> None:
    # A thread of the device's own may outlive Python and abort the process at exit.
    threads: list[int] = []
    x = torch.ones(2, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: threads.append(threading.get_ident()))
    (x * 2).sum().backward()
    assert threads == [threading.get_ident()]
