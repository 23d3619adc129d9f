"""What is being done now, at the end of the terminal's line, and gone when it is done.

As pytest's own "collecting": on a terminal only.  Elsewhere, with ``-q``, with ``-s`` (where tests
write to the terminal themselves) and in xdist's workers nothing is shown.
"""

from __future__ import annotations

import sys

import pytest

_PREFIX = "  fxregion: "


class TransientLine:
    """Shows one text at a time behind what pytest has written on the line."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shown = 0

    def __call__(self, text: str) -> None:
        """Show ``text`` in the place of what is shown; nothing if it is empty."""
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            # The terminal's writer counts columns; it must not count these.
            back = "\b" * self._shown
            shown = self._fitting(text)
            rubbed_out = max(0, self._shown - len(shown))
            sys.stdout.write(back + shown + " " * rubbed_out + "\b" * rubbed_out)
            sys.stdout.flush()
        self._shown = len(shown)

    def _fitting(self, text: str) -> str:
        """Return what of ``text`` fits on the line: it could not be taken back from the next."""
        if not text:
            return ""
        writer = self._config.get_terminal_writer()
        room = writer.fullwidth - writer.width_of_current_line - 1
        shown = (_PREFIX + text)[:room] if room > len(_PREFIX) + 8 else ""
        return shown if shown.isascii() else shown.encode("ascii", "replace").decode()


def transient_line(config: pytest.Config) -> TransientLine | None:
    """Return what shows steps, or None where they are not shown."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    shown = (
        reporter is not None
        and not hasattr(config, "workerinput")
        and config.option.capture != "no"
        and config.option.verbose >= 0
        and config.pluginmanager.hasplugin("capturemanager")
        and reporter.isatty
    )
    return TransientLine(config) if shown else None
