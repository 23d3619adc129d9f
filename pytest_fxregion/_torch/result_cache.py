"""AOTAutograd's cache of whole results: whether it is on, and how to keep out of it."""

from __future__ import annotations

from contextlib import AbstractContextManager

# How a compiler tells AOTAutograd not to save its result.
from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache as BypassAOTAutogradCache,
)

# What the cache takes for a compiled function.
from torch._inductor.output_code import OutputCode as OutputCode


def is_result_cached() -> bool:
    """Whether AOTAutograd saves what a compiler returns, and so wants it in a form of its own."""
    from torch._functorch import config

    return bool(getattr(config, "force_autograd_cache", False))  # since 2.11


def is_result_bundled() -> bool:
    """Whether it saves results whole, as it must for a compiler that is not Inductor."""
    from torch._functorch import config

    return bool(config.bundled_autograd_cache)


def results_not_cached() -> AbstractContextManager[None]:
    """A scope in which AOTAutograd neither looks for saved results nor saves any."""
    from torch._functorch import config

    patched: AbstractContextManager[None] = config.patch({"force_autograd_cache": False})
    return patched
