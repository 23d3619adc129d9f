"""The private names of torch and Triton that the virtual device replaces, and their way back.

The only module of this package, beside ``pytest_fxregion._torch``, that names private parts of
torch.  Beside each stands why it is replaced; all are there in torch 2.11 to 2.15 unless said.
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import torch
import torch._dynamo.device_interface as device_interface
import torch._dynamo.utils as dynamo_utils
import torch._dynamo.variables.ctx_manager as ctx_manager
import torch._inductor.config as inductor_config
import torch._inductor.runtime.triton_helpers
import torch._inductor.select_algorithm as select_algorithm
import torch._inductor.utils as inductor_utils
import torch.utils._triton as utils_triton
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CacheBase, PyCodeCache
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.runtime.hints import DeviceProperties as HintedProperties
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._subclasses import fake_tensor
from torch.cuda import nvtx

from pytest_fxregion.device.virtual.refusal import Refused, cannot, refused_class

triton_helpers: Any = torch._inductor.runtime.triton_helpers
compiler_config: Any = torch.compiler.config

_MISSING: Any = object()


class Replacements:
    """Attributes that were set, each with what was there before; put back on exit, last first."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name``; a class's own raw attribute (staticmethod, property) is kept."""
        before = type(owner) if name == "__class__" else vars(owner).get(name, _MISSING)
        self._before.append((owner, name, before))
        setattr(owner, name, value)

    def callback(self, undo: Callable[[], object]) -> None:
        """Have ``undo`` called on exit, in its turn."""
        self._before.append((None, "", undo))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if owner is None:
                value()
            elif value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def require_lazy_init() -> None:
    """Let torch's Python parts ask for ``torch.cuda`` again at the next use of a CUDA device.

    Once initialised, torch remembers that for good; outside, ``torch.zeros(1, device="cuda")`` has
    to fail as it did before.  The function is torch's own (``torch/csrc/utils/device_lazy_init.h``)
    and has no Python name.
    """
    cuda = 1
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
    name = "_ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb"
    getattr(library, name)(ctypes.c_int8(cuda), ctypes.c_bool(True))


def ask_hooks_at_each_initialisation() -> None:
    """Have a CUDA build's ``torch.cuda.init()`` fail outside of the device, for good.

    Its own function (``torch._C._cuda_init``) asks the hooks once in a process; having been
    answered inside, it would find a device outside.  The one put in its place asks each time, and
    outside fails with the same words.  A CPU build has no such function and fails by itself.
    """
    if hasattr(torch._C, "_cuda_init"):
        setattr(torch._C, "_cuda_init", torch.ops.fxregion_virtual.initialize)  # noqa: B010 - not in torch's own stubs


def forget_device_answers() -> None:
    """Drop what torch remembers about the device (``functools.cache``), on entry and on exit."""
    for module in (utils_triton, inductor_utils):
        for value in list(vars(module).values()):
            clear = getattr(value, "cache_clear", None)
            if clear is not None:
                clear()
    HintedProperties.create.cache_clear()
    CacheBase.get_system.cache_clear()
    CacheBase.get_local_cache_path.cache_clear()
    fake_tensor.init_gpu_context.cache_clear()
    # dynamo's table of handlers, by function object.
    TorchInGraphFunctionVariable._get_handlers.cache_clear()
    torch.cuda._check_bf16_tensor_supported.cache_clear()


def torch_cuda(
    replaced: Replacements,
    answers: dict[str, Any],
    properties: SimpleNamespace,
    stream: type,
    event: type,
    no_graphs: type,
) -> None:
    """Replace what ``torch.cuda`` bound when it was imported from a build without CUDA."""
    cuda = torch.cuda
    # Bound at import from torch._C, or stand-ins for what it lacks.
    replaced.set(cuda, "_get_device_properties", lambda index: properties)
    replaced.set(cuda, "_exchange_device", answers["_cuda_exchangeDevice"])
    replaced.set(cuda, "_maybe_exchange_device", answers["_cuda_maybeExchangeDevice"])
    replaced.set(cuda, "_is_in_bad_fork", answers["_cuda_isInBadFork"])
    # Counts the GPUs that CUDA_VISIBLE_DEVICES shows; -1 has the hooks asked instead.
    replaced.set(cuda, "_device_count_nvml", lambda: -1)
    for owner in (cuda, cuda.streams):
        replaced.set(owner, "Stream", stream)
        replaced.set(owner, "Event", event)
    for owner in (cuda, cuda.graphs):
        replaced.set(owner, "is_current_stream_capturing", lambda: False)
    # Asked by recurrent layers; the virtual device computes them without cuDNN.
    replaced.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    replaced.set(cuda, "CUDAGraph", no_graphs)
    replaced.set(cuda.graphs, "CUDAGraph", no_graphs)
    replaced.set(
        cuda, "ExternalStream", refused_class("ExternalStream", "torch.cuda.ExternalStream")
    )
    # Marks for a profiler: nobody looks at them, and a CPU build has no functions for it.
    if not hasattr(torch._C, "_nvtx"):
        replaced.set(nvtx, "_nvtx", _Unobserved())
    # `cudart()` is a module of the CUDA build; one function of it is used by torch itself.
    replaced.set(
        cuda,
        "_cudart",
        SimpleNamespace(
            cudaMemGetInfo=lambda index: (
                properties.total_memory - cuda.memory_allocated(),
                properties.total_memory,
            ),
            cudaError=SimpleNamespace(success=0),
        ),
    )
    if torch.version.cuda is None:
        # Some decisions look at the build: the one of this torch's CUDA wheels.
        replaced.set(torch.version, "cuda", "13.0")
    # The state of lazy initialisation: copies, so that the real one is as it was.
    replaced.set(cuda, "_initialized", False)
    replaced.set(cuda, "_cached_device_count", None)
    replaced.set(cuda, "_queued_calls", list(cuda._queued_calls))
    generator = torch.ops.fxregion_virtual.default_generator()
    generator.manual_seed(torch.default_generator.initial_seed())
    replaced.set(cuda, "default_generators", (generator,))


class _Unobserved:
    """NVTX without a profiler: ranges are numbered and nothing else happens."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args: 0


def distributed(replaced: Replacements) -> None:
    """Have process groups that would move data between GPUs refused when they are made.

    NCCL is there, as in every CUDA wheel, and its groups are refused; Gloo would hand the device's
    memory to CUDA.  The ``fake`` backend, which moves nothing, works.
    """
    if not torch.distributed.is_available():
        return
    c10d = torch.distributed.distributed_c10d
    no_nccl = Refused(
        "a process group of NCCL", "use backend='fake' to trace collectives, or a GPU"
    )
    # All of them in torch 2.14 and later, the first one before.
    for name in ("ProcessGroupNCCL", "ProcessGroupNCCL2", "ProcessGroupNCCLLazy"):
        replaced.set(c10d, name, no_nccl)
    replaced.set(c10d, "is_nccl_available", lambda: True)
    replaced.set(torch.distributed, "is_nccl_available", lambda: True)
    capability = c10d.Backend.backend_capability
    replaced.set(c10d.Backend, "backend_capability", {**capability, "gloo": ["cpu"]})


def storage(replaced: Replacements) -> None:
    """Replace the two functions of a storage whose CUDA half is compiled into CUDA builds only."""
    kind = torch.UntypedStorage
    make, resize = kind.__new__, kind.resize_

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "cuda":
            return make(cls, *args, **kwargs)
        size = args[0] if args and isinstance(args[0], int) else None
        content = torch.tensor(args[0] if args and size is None else [], dtype=torch.uint8)
        bytes_ = content.to(device) if size is None else _bytes(size, device)
        return bytes_.untyped_storage()

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize(self, size)
        torch.ops.fxregion_virtual.resize_storage(_bytes(0, "cuda").set_(self), size)
        return self

    replaced.set(kind, "__new__", staticmethod(new))
    replaced.set(kind, "resize_", resize_)


def _bytes(size: int, device: Any) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def dynamo(
    replaced: Replacements,
    answers: dict[str, Any],
    properties: SimpleNamespace,
    stream: type,
    event: type,
) -> None:
    """Replace what dynamo's device interface bound when it was imported."""
    interface = device_interface.CudaInterface
    replaced.set(interface, "get_raw_stream", staticmethod(answers["_cuda_getCurrentRawStream"]))
    exchange = staticmethod(answers["_cuda_exchangeDevice"])
    maybe_exchange = staticmethod(answers["_cuda_maybeExchangeDevice"])
    replaced.set(interface, "exchange_device", exchange)
    replaced.set(interface, "maybe_exchange_device", maybe_exchange)
    replaced.set(interface, "Stream", stream)
    replaced.set(interface, "Event", event)
    variable = ctx_manager.CUDADeviceVariable
    replaced.set(variable, "_exchange_fn", exchange)
    replaced.set(variable, "_maybe_exchange_fn", maybe_exchange)
    replaced.set(device_interface, "caching_worker_device_properties", {"cuda": [properties]})
    replaced.set(device_interface, "caching_worker_current_devices", {})
    # The types that dynamo takes for constants: the properties of a device are one.
    constants = dynamo_utils.common_constant_types
    if type(properties) not in constants:
        constants.add(type(properties))
        replaced.callback(lambda: constants.discard(type(properties)))
    # Made once from what torch.cuda answered then; made anew inside.
    replaced.set(device_interface, "device_interfaces", {})
    replaced.set(device_interface, "_device_initialized", False)


def inductor(replaced: Replacements) -> None:
    """Replace what Inductor would do by measuring on, or driving, a real device."""
    # The allocation that generated wrappers call; a CPU build has no such function.
    replaced.set(
        torch._C._dynamo.guards,
        "_empty_strided_cuda",
        lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="cuda"),
    )
    replaced.set(triton_helpers, "set_driver_to_gpu", lambda: None)
    replaced.set(PythonWrapperCodegen, "generate_and_run_autotune_block", lambda self: None)

    # Kernels are interpreted: none is compiled, and the first configuration is the one that runs.
    replaced.set(AsyncCompile, "triton", _load_kernel)
    replaced.set(CachingAutotuner, "triton_interpret", _Always(True))
    replaced.set(CachingAutotuner, "run", _run_kernel)
    replaced.set(select_algorithm, "PRINT_AUTOTUNE", False)

    # Of several candidates for one operator the first one wins, and nothing is timed.
    def in_given_order(cls: Any, choices: Any, *args: Any, **kwargs: Any) -> Any:
        return lambda options, **more: {c: float(i + 1) for i, c in enumerate(options)}

    replaced.set(
        select_algorithm.AlgorithmSelectorCache, "make_benchmark_fn", classmethod(in_given_order)
    )
    replaced.set(
        select_algorithm.AlgorithmSelectorCache,
        "make_precompile_fn",
        lambda self, *args, **kwargs: lambda: {},
    )


def advice(replaced: Replacements) -> None:
    """Keep Inductor from recommending TF32, which the interpreter does not have.

    Called with everything else in place: importing Inductor's compiler asks about the device.  It
    also warns of torch's own deprecated code, of which no test is to fail.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._inductor import compile_fx
    replaced.set(compile_fx, "_warn_tf32_disabled", lambda: None)


def _run_kernel(self: Any, *args: Any, stream: Any = None, **kwargs: Any) -> None:
    """Launch a kernel that Inductor wrote, or one of the user's that it took over.

    The latter's constants are known to the compiler only, so they are passed here by name.
    """
    config = self.configs[0]
    arguments, grid = self._interpret_args_grid(args, config)
    known = self.triton_meta.get("constants", {})
    constants = {**{n: v for n, v in known.items() if isinstance(n, str)}, **config.kwargs}
    kernel = self.fn
    compile_time = {kernel.arg_names[i] for i in triton_helpers.get_constexprs(kernel)}
    passed = [name for name in kernel.arg_names if name not in compile_time]
    if len(arguments) != len(passed):  # what is None, or 1, may be known to the compiler only
        passed = [name for name in passed if name not in constants]
    # For None a placeholder is passed; what the compiler knows holds.
    kernel[grid](**{**dict(zip(passed, arguments, strict=True)), **constants})


class _Always:
    """An attribute that is the same for every instance, whatever is assigned to it."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self._value

    def __set__(self, instance: object, value: object) -> None:
        pass


def _load_kernel(self: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
    return getattr(PyCodeCache.load(source_code), kernel_name)


# Whether fusions into templates are timed: renamed in 2.15, where the old name warns.
_EPILOGUE_FUSION = (
    "benchmark_template_fusion"
    if hasattr(inductor_config, "benchmark_template_fusion")
    else "benchmark_epilogue_fusion"
)


@contextlib.contextmanager
def inductor_settings() -> Iterator[None]:
    """Settings of Inductor without which a device that cannot be timed is timed."""
    settings = {
        # Worker processes do not have the replacements.
        "compile_threads": 1,
        # Whether to pad a matmul is measured on the device; fixed here to "no".
        "shape_padding": False,
        "triton.cudagraphs": False,
        "triton.autotune_at_compile_time": False,
        # Fusions are decided without timing them.
        "benchmark_fusion": False,
        _EPILOGUE_FUSION: False,
        "benchmark_kernel": False,
        # Nothing is timed, so there are no times to report.
        "max_autotune_report_choices_stats": False,
    }
    # What is compiled here must not be taken for a real GPU's by torch's caches on disk.
    tag = {"cache_key_tag": "pytest-fxregion virtual"}
    with inductor_config.patch(settings), compiler_config.patch(tag):
        yield


def triton_driver(replaced: Replacements, properties: SimpleNamespace) -> None:
    """Put a driver in Triton's place for it that answers questions and launches nothing."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    limits = {
        "max_shared_mem": properties.shared_memory_per_block_optin,
        "multiprocessor_count": properties.multi_processor_count,
        "max_num_regs": properties.regs_per_multiprocessor,
        "warpSize": properties.warp_size,
        "sm_clock_rate": properties.clock_rate,
        "mem_clock_rate": properties.memory_clock_rate,
        "mem_bus_width": properties.memory_bus_width,
    }

    class VirtualDriver:
        utils = SimpleNamespace(
            get_device_properties=lambda index: limits,
            load_binary=lambda *args: cannot("loading a cubin"),
        )

        @property
        def launcher_cls(self) -> Any:
            return cannot("launching a compiled kernel (AOTInductor)")

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", properties.major * 10 + properties.minor, 32)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda", 0)

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, index: int) -> None:
            pass

        def get_current_stream(self, index: int = 0) -> int:
            return 0

        def get_device_capability(self, index: int = 0) -> tuple[int, int]:
            return (properties.major, properties.minor)

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_benchmarker(self) -> Any:
            return cannot("timing a kernel")

        def get_empty_cache_for_benchmark(self) -> Any:
            return cannot("timing a kernel")

    replaced.set(driver, "_active", VirtualDriver())
