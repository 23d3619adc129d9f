"""Have eager do what a traced function does, where they sum gradients in other places.

Comes in: nothing.  Goes out: scopes in which eager is run that a compiled call is held against, and
one that keeps what torch says of its tracing out of a test's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.utils.checkpoint


@contextmanager
def unfolded_checkpoints() -> Iterator[None]:
    """While active, a reentrant checkpoint is the plain call of its function.

    It hides its function's autograd graph in a backward of its own, which adds to ``.grad`` fields
    directly.  torch.compile traces through it, and so must what its graph is compared with.
    """
    function = torch.utils.checkpoint.CheckpointFunction

    def call(run_function: Callable[..., Any], _preserve_rng_state: bool, *args: Any) -> Any:
        return run_function(*args)

    with patch.object(function, "apply", call):
        yield


@contextmanager
def uncached_autocast() -> Iterator[None]:
    """While active, autocast casts a parameter anew for each use, as a traced graph does.

    With its cache both uses share one cast, and their gradients are summed in low precision before
    they are cast back: other sums than those of the compiled call.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
def only_torchs_own_trace() -> Iterator[None]:
    """Keep foreign handlers off torch's structured trace.

    pytest 9 puts its own on every logger that does not propagate.  Torch then writes the whole
    trace, and a failure's captured log is hundreds of empty lines.
    """
    trace = logging.getLogger("torch.__trace")
    handlers = trace.handlers
    trace.handlers = [h for h in handlers if type(h).__module__.startswith("torch.")]
    try:
        yield
    finally:
        trace.handlers = handlers
