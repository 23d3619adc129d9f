"""A node's stack trace in, the line of user code that it came from out.

A stack trace names absolute paths and line numbers; what is returned here names neither, so that it
is the same on another machine and after an edit further up in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from pytest_fxregion.readable.values import one_line

_FRAME = re.compile(r'^\s*File "(.+)", line \d+, in (.+)$')

# The name of code without a file.  torch adds a number that counts over the process, and the path
# and line that made it: `<eval_with_key>.7 from /home/me/model.py:12 in build`.
_WITHOUT_FILE = re.compile(r"^<([^>]+)>(?:\.\d+)?(?: from .*)?$")

# Dynamo names the rest of a function after a graph break by the line at which it resumes.
_RESUMED_FUNCTION = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")

# Frames of their own until Python 3.11; since 3.12 they are part of the function around them.
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


class SourceLines:
    """Finds the source line of stack traces; one for each text, as it remembers what it found.

    ``root`` is the folder that paths are made relative to.  A file outside of it is shown by its
    path inside ``site-packages``, else by its name alone.
    """

    def __init__(self, root: Path | None = None) -> None:
        # A test may be imported through a symbolic link to the root, or through the real folder.
        folders = () if root is None else (os.path.abspath(root), os.path.realpath(root))
        self._roots = tuple(folder.rstrip(os.sep) + os.sep for folder in folders)
        self._found: dict[str, str | None] = {}

    def line(self, stack_trace: str | None) -> str | None:
        """Return ``<file> in <function>: <code>`` for a trace as in ``node.meta["stack_trace"]``.

        It is the innermost frame outside of torch, whose own code differs between versions; if all
        are torch's, the innermost.  None if there is no frame.
        """
        if not stack_trace:
            return None
        if stack_trace not in self._found:
            self._found[stack_trace] = self._innermost(stack_trace)
        return self._found[stack_trace]

    def without_root(self, text: str) -> str:
        """Return ``text`` with paths inside the root folder made relative to it."""
        for root in self._roots:
            if root != os.sep:
                text = text.replace(root, "")
        return text

    def shown_path(self, path: str) -> str:
        """Return the part of ``path`` that is the same on every machine."""
        invented = _WITHOUT_FILE.match(path)
        if invented is not None:
            return f"<{invented[1]}>"
        parts = path.split(os.sep)
        for folder in _PACKAGE_FOLDERS:
            if folder in parts:
                last = len(parts) - 1 - parts[::-1].index(folder)
                return "/".join(parts[last + 1 :])
        if path.startswith(_TORCH_FOLDER):
            return "torch/" + path.removeprefix(_TORCH_FOLDER).replace(os.sep, "/")
        for root in self._roots:
            if path.startswith(root):
                return path.removeprefix(root).replace(os.sep, "/")
        return parts[-1]

    def _innermost(self, stack_trace: str) -> str | None:
        in_torch = None
        for file, function, code in _with_comprehensions_inlined(
            _frames_from_innermost(stack_trace)
        ):
            path = self.shown_path(file)
            function = _RESUMED_FUNCTION.sub(r"\1", function)
            found = one_line(f"{path} in {function}: {code}")
            if not path.startswith("torch/"):
                return found
            in_torch = in_torch or found
        return in_torch


def _frames_from_innermost(stack_trace: str) -> Iterator[tuple[str, str, str]]:
    """Yield file, function and first line of code of each frame, the innermost first.

    Only the first line: how many lines of a longer statement a trace holds, and whether marks stand
    below them, depends on the version of Python.
    """
    lines = stack_trace.split("\n")
    for index in range(len(lines) - 1, -1, -1):
        frame = _FRAME.match(lines[index])
        if frame is not None:
            code = lines[index + 1].strip() if index + 1 < len(lines) else ""
            yield frame[1], frame[2], "" if _FRAME.match(code) else code


def _with_comprehensions_inlined(
    frames: Iterator[tuple[str, str, str]],
) -> Iterator[tuple[str, str, str]]:
    """Give a comprehension's line to the function around it, as Python does since 3.12."""
    inlined: tuple[str, str, str] | None = None
    for frame in frames:
        file, function, code = frame
        if function in _COMPREHENSIONS:
            inlined = inlined or frame
        elif inlined is not None:
            yield inlined[0], function, inlined[2]
            inlined = None
        else:
            yield file, function, code
    if inlined is not None:  # nothing is known of what is around it
        yield inlined
