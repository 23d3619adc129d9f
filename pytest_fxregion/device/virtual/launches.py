"""Which kernels were interpreted, with which configuration: noted while somebody listens.

A list of the process, not of a thread: autograd runs a device's backward in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """One start of a kernel.

    ``configuration`` are its compile-time constants, ``supplied`` the libdevice functions and
    inline PTX instructions that were computed in their stead by torch and numpy.
    """

    kernel: str
    configuration: str
    grid: tuple[int, int, int]
    supplied: tuple[str, ...] = ()

    def __str__(self) -> str:
        supplied = f" with {', '.join(self.supplied)}" if self.supplied else ""
        return f"{self.kernel} [{self.configuration}] grid {self.grid}{supplied}"


_listeners: list[list[Launch]] = []


def note(
    kernel: str,
    constants: Mapping[str, object],
    grid: tuple[int, int, int],
    supplied: Iterable[str] = (),
) -> None:
    """Tell whoever listens that a kernel was run."""
    if _listeners:
        configuration = ", ".join(f"{name}={value}" for name, value in sorted(constants.items()))
        launch = Launch(kernel, configuration, grid, tuple(sorted(supplied)))
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
