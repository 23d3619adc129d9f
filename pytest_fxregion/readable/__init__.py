"""A graph's text: :func:`render` for one that goes into a snapshot, :func:`print_readable`."""

from pytest_fxregion.readable.writer import print_readable, render

__all__ = ["print_readable", "render"]
