"""Say what is being done while it takes long: from where it is done to whoever listens.

Comes in: short texts, from any module.  Goes out: the same to the listener of the moment; to nobody
where there is none, as outside of pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("progress", default=None)


def step(text: str) -> None:
    """Say what is done from now on; an empty text says that nothing is."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(text)


@contextmanager
def listening(listener: Callable[[str], None] | None) -> Iterator[None]:
    """While active, have ``listener`` told of each step; at the end of none."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        step("")
        _LISTENER.reset(token)
