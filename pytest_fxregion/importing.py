"""Importing what is large."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Import inside without the garbage collector, which is as it was afterwards.

    torch and Inductor make a million objects that all stay.  The collector would go through them
    again and again, for about a third of the time that the import takes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
