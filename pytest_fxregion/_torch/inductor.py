"""Inductor: its configuration, the annotations it reads, and how it waits for kernels."""

from __future__ import annotations

import functools
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import fx
from torch._inductor.runtime import triton_helpers

from pytest_fxregion._torch.dynamo import is_stream_of_dynamo

# What generated kernels import; its question for a driver is answered where there is none.
inductor_runtime_helpers = triton_helpers


@functools.cache
def inductor_config_keys() -> frozenset[str]:
    """Every name that torch._inductor.config knows, dotted ones included."""
    from torch._inductor import config

    return frozenset(config._config)  # type: ignore[attr-defined]


def inductor_config_type(key: str) -> tuple[type, ...]:
    """The types that an Inductor config's value may have; empty where any value may do."""
    from torch._inductor import config

    found = _plain_types(config.get_type(key))  # type: ignore[attr-defined]
    return () if found == (type(None),) else found  # a default of None says nothing about others


def _plain_types(annotation: object) -> tuple[type, ...]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [_plain_types(member) for member in typing.get_args(annotation)]
        return tuple(t for m in members for t in m) if all(members) else ()
    if origin is typing.Literal:
        return tuple({type(value) for value in typing.get_args(annotation)})
    if annotation is None or annotation is type(None):
        return (type(None),)
    if annotation in (float, int):
        return (float, int)
    return (annotation,) if annotation in (bool, str) else ()


def patched_inductor_config(changes: dict[str, object]) -> AbstractContextManager[None]:
    """A scope in which Inductor's configuration has the changes."""
    from torch._inductor import config

    return config.patch(changes)  # type: ignore[no-any-return]


def cache_key_with(tag: str) -> AbstractContextManager[None]:
    """Make ``tag`` a part of what torch's caches look a compilation up by; ``patch``: 2.11 on."""
    from torch.compiler import config

    patched = config.patch(cache_key_tag=config.cache_key_tag + tag)  # type: ignore[attr-defined]
    return patched  # type: ignore[no-any-return]


def nested_region_configs(options: object, *, backward: bool) -> dict[str, object] | None:
    """Return the configuration under which Inductor is to compile a nested region; None if not.

    ``options`` are those of ``torch.compiler.nested_compile_region``, in ``custom`` under
    ``nested_region_config`` (pytorch#167599; 2.11 to 2.15).  Raises :class:`TypeError` if they name
    another compiler than torch's ``invoke_subgraph_inductor_compile``.
    """
    from torch._higher_order_ops.invoke_subgraph import (
        NestedCompileRegionOptions,
        invoke_subgraph_inductor_compile,
    )

    if not isinstance(options, NestedCompileRegionOptions):
        return None
    compiler = options.bw_compiler if backward else options.fw_compiler
    if compiler is None:
        return None
    if getattr(compiler, "func", compiler) is not invoke_subgraph_inductor_compile:
        raise TypeError(f"a compiler of its own ({compiler!r})")
    patches = getattr(compiler, "keywords", {}).get("inductor_config_patches") or {}
    # What 2.11 to 2.13 ask for where nothing is asked for, and `standalone_compile` sets anyway.
    default = ("triton.autotune_at_compile_time", True)
    return {key: value for key, value in patches.items() if (key, value) != default}


_READ_BY_INDUCTOR = ("fallback_to_eager", "mempool", "mempool_device")


def annotations_read_by_inductor(node: fx.Node) -> dict[str, object]:
    """Return those of a node's annotations by which Inductor makes other code.

    Operations that are left to eager (2.13 on), pools of memory and the configuration of nested
    regions (2.14 on), and streams of the program (2.11 to 2.15).
    """
    custom = node.meta.get("custom")
    if not isinstance(custom, Mapping):
        return {}
    found = {key: custom[key] for key in _READ_BY_INDUCTOR if key in custom}
    if "stream" in custom and is_stream_of_dynamo(custom["stream"]):
        found["stream"] = custom["stream"]
    configs = getattr(custom.get("nested_region_config"), "inductor_config_patches", None)
    if configs:
        found["nested_region_config"] = dict(configs)
    return found


@contextmanager
def kernels_awaited_later() -> Iterator[list[Callable[[], None]]]:
    """A scope in which generated code does not wait for its kernels to be built.

    Gives the list of what waits for them; each entry must be called before the code first runs.
    What another thread compiles meanwhile is none of the scope's.
    """
    from torch._inductor.async_compile import AsyncCompile

    wait_now = AsyncCompile.wait
    waiting: list[Callable[[], None]] = []
    thread = threading.get_ident()

    def wait_later(self: AsyncCompile, scope: dict[str, Any]) -> None:
        if threading.get_ident() == thread:
            waiting.append(functools.partial(wait_now, self, scope))
        else:
            wait_now(self, scope)

    AsyncCompile.wait = wait_later  # type: ignore[method-assign]
    try:
        yield waiting
    finally:
        AsyncCompile.wait = wait_now  # type: ignore[method-assign]


def forget_generated_code() -> None:
    """Have Inductor load generated modules anew; what holds a function of one keeps it."""
    from torch._inductor.codecache import PyCodeCache

    PyCodeCache.cache_clear()
