"""What ``torch.cuda``, dynamo, Inductor and Triton ask about the device, answered for a named GPU.

In: an :class:`~pytest_fxregion.device.virtual.architectures.Architecture`.  Out: a context in which
``torch.cuda`` has one device of that kind.  A CPU build of torch lacks the ``torch._C._cuda_*``
functions that the whole of ``torch.cuda`` rests on; supplying those leaves almost all of torch's
Python code as it is.  Every replacement is undone on the way out, whatever happens inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from pytest_fxregion.device.virtual import _replaced, loader
from pytest_fxregion.device.virtual.architectures import Architecture
from pytest_fxregion.device.virtual.interpreter import interpreting
from pytest_fxregion.device.virtual.refusal import refused_class, refusing
from pytest_fxregion.device.virtual.streams import Event, Stream
from pytest_fxregion.errors import DeviceError

CUDA_GRAPHS = "CUDA graphs (modes reduce-overhead and max-autotune, triton.cudagraphs)"


class DeviceProperties(SimpleNamespace):
    """Attributes of ``torch.cuda.get_device_properties()``, sizes in bytes and clocks in kHz."""


def device_properties(arch: Architecture) -> DeviceProperties:
    """Return the properties of one architecture under the names that torch gives them."""
    major, minor = arch.capability
    return DeviceProperties(
        name=arch.product,
        major=major,
        minor=minor,
        total_memory=arch.total_memory,
        multi_processor_count=arch.multiprocessors,
        L2_cache_size=arch.l2_cache,
        regs_per_multiprocessor=arch.registers_per_multiprocessor,
        shared_memory_per_block=arch.shared_memory_per_block,
        shared_memory_per_block_optin=arch.shared_memory_per_block_optin,
        shared_memory_per_multiprocessor=arch.shared_memory_per_multiprocessor,
        max_threads_per_multi_processor=arch.threads_per_multiprocessor,
        max_threads_per_block=arch.threads_per_block,
        warp_size=arch.warp_size,
        clock_rate=arch.clock_rate,
        memory_clock_rate=arch.memory_clock_rate,
        memory_bus_width=arch.memory_bus_width,
        gcnArchName=arch.product,
        is_integrated=0,
        is_multi_gpu_board=0,
        uuid=f"virtual-{arch.name}",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
    )


def _check_index(index: int) -> int:
    if index > 0:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal (the virtual device is cuda:0 alone, not {index})"
        )
    return index


def _exchange(index: int) -> int:
    return 0 if _check_index(index) >= 0 else -1


# Two functions, for dynamo keeps a table of handlers by function.
def _maybe_exchange(index: int) -> int:
    return _exchange(index)


def _stream_data(stream: torch.Stream) -> tuple[int, int, int]:
    return (stream.stream_id, stream.device_index, stream.device_type)


def _set_stream(stream_id: int, device_index: int, device_type: int) -> None:
    torch.accelerator.set_stream(
        torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    )


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _memory_stats(index: int) -> dict[str, Any]:
    """Return what the device's tensors take, in the form of CUDA's allocator.

    There are no pools, segments or splits: memory is reserved when it is allocated.
    """
    native = loader.library()

    def gauge(blocks: int) -> dict[str, dict[str, int]]:
        now, peak, total = (native.fxregion_virtual_memory(blocks, which) for which in range(3))
        nothing = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
        everything = {"current": now, "peak": peak, "allocated": total, "freed": total - now}
        return {"all": everything, "small_pool": nothing, "large_pool": nothing}

    none = {pool: dict.fromkeys(counts, 0) for pool, counts in gauge(0).items()}
    kinds = ("allocated", "active", "reserved", "requested")
    return {
        **{f"{kind}_bytes": gauge(0) for kind in kinds},
        **{name: gauge(1) for name in ("allocation", "active", "segment")},
        **dict.fromkeys(("inactive_split", "inactive_split_bytes"), none),
        **dict.fromkeys(("oversize_allocations", "oversize_segments"), none["all"]),
        "num_ooms": 0,
        "num_alloc_retries": 0,
    }


def bindings(arch: Architecture) -> dict[str, Any]:
    """Return the functions of ``torch._C`` that a CUDA build has, for one virtual device."""
    native = loader.library()
    major, minor = arch.capability
    return {
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_init": _nothing,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_getDevice": lambda: 0,
        "_cuda_setDevice": lambda index: _check_index(index) and None,
        "_cuda_exchangeDevice": _exchange,
        "_cuda_maybeExchangeDevice": _maybe_exchange,
        "_cuda_hasPrimaryContext": lambda index: index == 0,
        "_cuda_canDeviceAccessPeer": lambda index, peer: False,
        "_cuda_getArchFlags": lambda: f"sm_{major}{minor} compute_{major}{minor}",
        "_cuda_synchronize": _nothing,
        "_cuda_ipc_collect": _nothing,
        "_cuda_emptyCache": _nothing,
        "_cuda_memoryStats": _memory_stats,
        "_cuda_resetAccumulatedMemoryStats": _nothing,
        "_cuda_resetPeakMemoryStats": lambda index: native.fxregion_virtual_reset_peak_memory(),
        "_cuda_getCurrentStream": lambda index: _stream_data(torch.accelerator.current_stream()),
        "_cuda_getDefaultStream": lambda index: (0, 0, 1),
        "_cuda_getCurrentRawStream": lambda index: torch.accelerator.current_stream().stream_id,
        "_cuda_setStream": _set_stream,
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": _nothing,
        "_cuda_sleep": _nothing,
        "_cuda_jiterator_compile_and_launch_kernel": refusing("torch.cuda.jiterator"),
        "_cuda_record_memory_history": refusing("torch.cuda.memory history"),
        "_cuda_memorySnapshot": refusing("torch.cuda.memory snapshot"),
        # Asked for first when CUDA graphs are made (mode="reduce-overhead").
        "_cuda_cudaCachingAllocator_is_enabled": refusing(CUDA_GRAPHS),
        "_cuda_clearCublasWorkspaces": _nothing,
        "_cuda_getCurrentBlasHandle": refusing("cuBLAS"),
    }


@contextlib.contextmanager
def activate(arch: Architecture) -> Iterator[None]:
    """Make ``torch.cuda`` answer for ``arch`` inside the block.

    Raises :class:`~pytest_fxregion.errors.DeviceError` when the native library is not loaded, or
    when another architecture is active already.
    """
    native = loader.library()
    if torch.cuda.is_available():
        raise DeviceError("a CUDA device is active already; the virtual one cannot be put over it")
    properties = device_properties(arch)
    _replaced.ask_hooks_at_each_initialisation()
    with contextlib.ExitStack() as stack:
        native.fxregion_virtual_activate(*arch.capability)
        stack.callback(native.fxregion_virtual_deactivate)
        stack.callback(_replaced.require_lazy_init)
        replaced = stack.enter_context(_replaced.Replacements())
        _replaced.forget_device_answers()
        stack.callback(_replaced.forget_device_answers)
        answers = bindings(arch)
        for name, value in answers.items():
            replaced.set(torch._C, name, value)
        no_graphs = refused_class("CUDAGraph", CUDA_GRAPHS)
        _replaced.torch_cuda(replaced, answers, properties, Stream, Event, no_graphs)
        _replaced.storage(replaced)
        _replaced.dynamo(replaced, answers, properties, Stream, Event)
        _replaced.inductor(replaced)
        _replaced.triton_driver(replaced, properties)
        _replaced.distributed(replaced)
        stack.enter_context(_replaced.inductor_settings())
        stack.enter_context(interpreting())
        # A device's backward would run in a thread of its own, which at exit may ask for Python's
        # lock when there is no Python any more, and abort the process.
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        # As in a real process: what was asked of the device before it was first used (a seed) is
        # done now.
        torch.cuda.init()
        _replaced.advice(replaced)
        yield
