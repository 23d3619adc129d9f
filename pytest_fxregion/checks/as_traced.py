"""Have eager do what a traced function does, where they sum gradients in other places.

Comes in: nothing.  Goes out: scopes in which eager is run that a compiled call is held against.
"""

from __future__ import annotations

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
