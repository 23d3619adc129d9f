"""Hold a graph's text against torch's own ``print_readable(include_stride, include_device)``."""

from __future__ import annotations

import ast
import re
from difflib import unified_diff

from torch import fx

from pytest_fxregion.readable import print_readable
from pytest_fxregion.readable.counters import Counters
from pytest_fxregion.readable.symbols import stable_symbols

# What is in a comment of torch's text; each is tested on its own.
_TAGS = ("custom", "recompute", "ac_graph_id", "is_gradient_acc")

# An index into a table of the process, which our text numbers from 0.
_COUNTED = re.compile(r"\b(kernel_idx|constant_args_idx) = \d+")


def code_lines(text: str) -> list[str]:
    """The lines of ``text`` that are neither blank nor a comment."""
    lines = [line for line in text.splitlines() if line.strip()]
    # torch names a graph that it traced from a lambda after it, which is no valid class name.
    return [
        line.replace("class <lambda>(", "class _lambda_(")
        for line in lines
        if not line.lstrip().startswith("#")
    ]


def assert_agrees(gm: fx.GraphModule) -> None:
    """Hold our text of ``gm``, which must be valid Python, against torch's."""
    ours = print_readable(gm, print_output=False)
    ast.parse(ours)
    torchs = gm.print_readable(print_output=False, include_stride=True, include_device=True)
    # But for symbols that torch names by chance, and the module in which calls of regions live.
    theirs = stable_symbols(gm, Counters())(torchs).replace("pytest_fxregion_regional_region_", "")
    different = list(unified_diff(_uncounted(theirs), _uncounted(ours), "torch", "ours", n=1))
    assert not different, "\n".join(different)


def without_tags(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy of ``gm``, and of the graph modules in it, without tags and called with its inputs."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    for node in graph.nodes:
        node.meta = {key: value for key, value in node.meta.items() if key not in _TAGS}
    copied = fx.GraphModule(gm, graph, class_name="GraphModule")
    for name, child in list(copied.named_children()):
        if isinstance(child, fx.GraphModule):
            setattr(copied, name, without_tags(child))
    return copied


def _uncounted(text: str) -> list[str]:
    return [_COUNTED.sub(r"\1 = n", line) for line in code_lines(text)]
