"""Modes and settings of the process that change what an operation or a compile does."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import _C
from torch.utils import _python_dispatch

from pytest_fxregion._torch.tensors import FakeTensor

# Base of modes that see every operation that reaches the dispatcher.
DispatchMode = _python_dispatch.TorchDispatchMode


def without_dispatch_modes() -> AbstractContextManager[object]:
    """Suspend fake and tracing modes in a scope, so that a constant's content can be read."""
    return _python_dispatch._disable_current_modes()


_MODE_KEYS = _C._TorchDispatchModeKey
_TRACING = (_MODE_KEYS.FAKE, _MODE_KEYS.FUNCTIONAL, _MODE_KEYS.PROXY)
_active_modes = _C._len_torch_dispatch_stack


def is_traced(operands: Iterable[object]) -> bool:
    """Whether operators on the operands are traced, or told their results' form alone.

    ``_len_torch_dispatch_stack``, ``_get_dispatch_mode``: 2.11 to 2.15.
    """
    if FakeTensor in map(type, operands):
        return True
    return _active_modes() > 0 and any(_C._get_dispatch_mode(key) is not None for key in _TRACING)


def is_functorch_active() -> bool:
    """Whether code runs under vmap, grad or another functorch transform."""
    return _C._functorch.peek_interpreter_stack() is not None


def is_autocast_active() -> bool:
    """Whether any device's autocast would change what operators compute."""
    return _C._is_any_autocast_enabled()


# Where ``fp32_precision`` can be set.  What older settings (``set_float32_matmul_precision``,
# ``allow_tf32``) ask for is there too; to read those raises once a newer one was set.
_FP32_PRECISIONS = (
    ("generic", "all"),
    *((backend, of) for backend in ("cuda", "mkldnn") for of in ("all", "matmul", "conv", "rnn")),
)


def ambient_compile_state() -> tuple[object, ...]:
    """What a compile depends on besides its graph: modes, defaults, and the compilers' options.

    ``_get_fp32_precision_getter(backend, operation)``: 2.11 to 2.15.
    """
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    device_types = ("cpu", "cuda")
    deterministic_settings: Any = torch.utils.deterministic
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple((torch.is_autocast_enabled(t), torch.get_autocast_dtype(t)) for t in device_types),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        tuple(_C._get_fp32_precision_getter(*of) for of in _FP32_PRECISIONS),
        torch.backends.mkldnn.enabled,
        deterministic_settings.fill_uninitialized_memory,
        inductor_config.get_hash(),
        functorch_config.get_hash(),
    )
