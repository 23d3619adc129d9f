"""Which kernels were interpreted, with which configuration: noted while somebody listens.

A list of the process, not of a thread: autograd runs a device's backward in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """One start of a kernel.  ``configuration`` are its compile-time constants."""

    kernel: str
    configuration: str
    grid: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kernel} [{self.configuration}] grid {self.grid}"


_listeners: list[list[Launch]] = []


def note(kernel: str, constants: Mapping[str, object], grid: tuple[int, int, int]) -> None:
    """Tell whoever listens that a kernel is started."""
    if _listeners:
        configuration = ", ".join(f"{name}={value}" for name, value in sorted(constants.items()))
        launch = Launch(kernel, configuration, grid)
        for listener in _listeners:
            listener.append(launch)


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Give a list that fills with the launches inside the block, in order."""
    launches: list[Launch] = []
    _listeners.append(launches)
    try:
        yield launches
    finally:
        _listeners.remove(launches)
