"""Dynamo: what it compiled, what broke its graphs, and how to have it forget."""

from __future__ import annotations

import types
import warnings
from collections import Counter
from typing import Any

import torch

# Held by dynamo while it compiles, and by Inductor while it compiles a backward: 2.11 to 2.15.
from torch._dynamo.convert_frame import compile_lock as compile_lock

# Dynamo's way of saying "trace again, otherwise": must pass through a compiler untouched.
from torch._dynamo.exc import RestartAnalysis as RestartAnalysis


def is_compiled(function: object) -> bool:
    """Whether a function or module is what ``torch.compile`` gave.

    ``OptimizedModule``, ``_torchdynamo_orig_callable``, ``_torchdynamo_disable``: 2.11 to 2.15.
    """
    from torch._dynamo.eval_frame import OptimizedModule

    if issubclass(type(function), OptimizedModule):  # a proxy may say that it is of any class
        return True
    is_wrapper = type(function) in (types.FunctionType, types.MethodType)
    is_wrapper = is_wrapper and hasattr(function, "_torchdynamo_orig_callable")
    return is_wrapper and not getattr(function, "_torchdynamo_disable", False)


def as_written(function: Any) -> Any:
    """Return what ``torch.compile`` was given where ``function`` is what it gave; else itself."""
    while is_compiled(function):
        is_module = isinstance(function, torch.nn.Module)
        function = function._orig_mod if is_module else function._torchdynamo_orig_callable
    return function


def forget_compiled_call(module: torch.nn.Module) -> None:
    """Undo ``module.compile()``; ``Module._compiled_call_impl``: 2.11 to 2.15."""
    if module._compiled_call_impl is not None:
        module._compiled_call_impl = None


def reset_compiler() -> None:
    """Forget every compiled function of this process.

    The first time, this imports Inductor, which warns of torch's own deprecated code; a test that
    turns warnings into errors is not to fail of that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()


def graph_breaks() -> Counter[str]:
    """Return how often each reason has broken a graph of this process, in dynamo's words.

    Those for which a whole function was left to eager, as a break in a loop is, are counted apart,
    among what was given up in tracing.  ``torch._dynamo.utils.counters``: 2.11 to 2.15.
    """
    from torch._dynamo.utils import counters

    skipped = {r: n for r, n in counters["unimplemented"].items() if "frame skipped" in r}
    return Counter(counters["graph_break"]) + Counter(skipped)


def forget_on_reset(owner: Any) -> None:
    """Have ``owner.reset()`` called, once, by the next ``torch._dynamo.reset()``."""
    from torch._dynamo.eval_frame import cached_backends

    cached_backends.setdefault(id(owner), owner)


def is_stream_of_dynamo(number: object) -> bool:
    """Whether a number is one that dynamo gave to a stream of the function that it traces.

    ``get_external_object_by_index``: 2.11 to 2.15.
    """
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    if not isinstance(number, int) or number < 0:
        return False
    try:
        return isinstance(get_external_object_by_index(number), torch.Stream)
    except AssertionError:  # nothing has this number
        return False
