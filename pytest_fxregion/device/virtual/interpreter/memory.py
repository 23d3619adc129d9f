"""Loads, stores and atomics of a whole batch of programs, with a way back.

Pointers are addresses in this process's memory (the virtual device's memory is host memory).
Before anything is overwritten the old bytes are kept, so that a batch whose programs turn out to
branch differently can be taken back and run again in parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from triton._C.libtriton import interpreter as native

Array = npt.NDArray[Any]


class Memory:
    """What one batch of programs did to memory."""

    def __init__(self) -> None:
        self._before: list[tuple[Array, Array, Array]] = []

    def load(self, pointers: Array, mask: Array, other: Array, dtype: np.dtype[Any]) -> Array:
        """Load elements of ``dtype``; where the mask is false, take ``other``."""
        pointers, mask, other = (
            np.ascontiguousarray(a) for a in np.broadcast_arrays(pointers, mask, other)
        )
        loaded: Array = native.load(pointers, mask, other, dtype)
        return loaded

    def store(self, pointers: Array, values: Array, mask: Array) -> None:
        """Store values where the mask is true; of equal addresses the last one wins."""
        pointers, values, mask = self._keep(pointers, values, mask)
        native.store(pointers, values, mask)

    def atomic(
        self, operation: Any, pointers: Array, values: Array, mask: Array, sem: Any
    ) -> Array:
        """Read, modify, write, one element after the other; returns what was there."""
        pointers, values, mask = self._keep(pointers, values, mask)
        old: Array = native.atomic_rmw(operation, pointers, values, mask, sem)
        return old

    def compare_and_swap(self, pointers: Array, expected: Array, values: Array, sem: Any) -> Array:
        """Write where memory holds what is expected; returns what was there."""
        everywhere = np.ones(pointers.shape, dtype=np.bool_)
        pointers, values, _ = self._keep(pointers, values, everywhere)
        expected = np.ascontiguousarray(np.broadcast_to(expected, pointers.shape))
        old: Array = native.atomic_cas(pointers, expected, values, sem)
        return old

    def take_back(self) -> None:
        """Put memory back to what it was before the batch."""
        while self._before:
            native.store(*self._before.pop())

    def _keep(self, pointers: Array, values: Array, mask: Array) -> tuple[Array, Array, Array]:
        pointers, values, mask = (
            np.ascontiguousarray(a) for a in np.broadcast_arrays(pointers, values, mask)
        )
        before = native.load(pointers, mask, np.zeros_like(values), values.dtype)
        self._before.append((pointers, before, mask))
        return pointers, values, mask
