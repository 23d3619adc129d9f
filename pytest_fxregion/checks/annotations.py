"""Find annotated code that no compiled region came of.

Comes in: the lines that eager ran under a region's annotation, and the compiled regions.  Goes out:
the lines that were lost, in words.

torch says nothing when an annotation comes to nothing: a graph break inside an annotated block
drops it from all that follows, and a block whose results nobody uses is removed as dead code.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.modes import DispatchMode
from pytest_fxregion.regional import Region
from pytest_fxregion.regional.annotation import ANNOTATION_KEY
from pytest_fxregion.scope import annotation_in_force

# A line of code: (file, line number).
Line = tuple[str, int]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_OWN = str(Path(__file__).parents[1])
_TORCH = str(Path(torch.__file__).parent)
# Eager's `cond` and `flex_attention` are traced too: what runs then is generated, in "<...>".
_NOT_THE_USERS = (_OWN, _TORCH, "<")


class AnnotatedLines(DispatchMode):
    """Notes, while eager runs, which lines ran operations under a region's annotation."""

    supports_higher_order_operators = True  # cond, scan…: they come by like any other operation

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile work while the mode is active: eager's ``cond`` is built on it."""
        return True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # By function: a block of one function is one block, as far as can be seen from here.
        self.blocks: dict[tuple[str, str], dict[Line, None]] = defaultdict(dict)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and note where it was called if it is annotated."""
        if _asks_for_a_region(annotation_in_force().get(ANNOTATION_KEY)):
            frame = _users_frame(sys._getframe(1))
            if frame is not None:
                code = frame.f_code
                block = (code.co_filename, code.co_qualname)
                self.blocks[block][code.co_filename, frame.f_lineno] = None
        return func(*args, **(kwargs or {}))


def lost_lines(watched: AnnotatedLines, regions: Iterable[Region], *, is_whole: bool) -> list[Line]:
    """Return annotated lines of which nothing was compiled.

    Where the function is one whole graph, only of blocks of which no line was: a single line may be
    folded into a constant.  Where it broke, every line counts.
    """
    compiled = {line for region in regions for line in _lines_of(region)}
    lost: list[Line] = []
    for lines in watched.blocks.values():
        missing = [line for line in lines if line not in compiled]
        if not is_whole or len(missing) == len(lines):
            lost += missing
    return lost


def describe(lost: Iterable[Line], root: Path, graph_count: int, breaks: Sequence[str] = ()) -> str:
    """Say which annotated lines were not compiled, and what may have become of them.

    ``breaks`` are the reasons for which dynamo broke graphs.
    """
    places = ", ".join(f"{_shown(file, root)}:{line}" for file, line in lost)
    if graph_count == 1 and not breaks:
        reason = "nothing uses its results, or the compiler took it away"
    else:
        compiled = {0: "was not compiled", 1: "was compiled in part"}.get(
            graph_count, f"was compiled as {graph_count} graphs"
        )
        because = f" ({'; '.join(breaks)})" if breaks else ""
        reason = (
            f"the function {compiled}{because}, and an annotation ends where a graph "
            "breaks: take the break out of the annotated block"
        )
    return f"annotated, but in no compiled region: {places} ({reason})"


def _asks_for_a_region(value: object) -> bool:
    return value is not None and value is not False


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of code that somebody wrote, and neither torch nor we did."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
            return frame
        frame = frame.f_back
    return None


def _lines_of(region: Region) -> Iterator[Line]:
    """Lines of which something was compiled, or that call such lines.

    Beside a custom ``Function``'s forward, eager runs operations in the line that applies it: it
    detaches what is saved, and gives views of inputs that are returned.
    """
    for module in region.body.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                frames = _FRAME.findall(str(node.meta.get("stack_trace", "")))
                yield from (
                    (file, int(line))
                    for file, line in frames
                    if not file.startswith(_NOT_THE_USERS)
                )


def _shown(file: str, root: Path) -> str:
    path = Path(file)
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
