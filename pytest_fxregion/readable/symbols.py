"""Names for the symbols that torch names by chance.

Comes in: a graph.  Goes out: a function from text to text.  Most symbols have a name that follows
from where their size comes from (``s77``).  The size of a tensor that torch makes up while it
compiles, such as a random number generator's state, is named after a count of all tensors that are
alive then, and so differs between two runs.  Those are numbered ``r0``, ``r1``… as they appear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion._torch.symbols import is_named_by_chance
from pytest_fxregion.readable.counters import Counters


def stable_symbols(graph_module: fx.GraphModule, counters: Counters) -> Callable[[str], str]:
    """Return what renames the symbols of ``graph_module`` that are named by chance, in any text."""
    names = {name: f"r{counters.number('symbol', name)}" for name in _named_by_chance(graph_module)}
    if not names:
        return lambda text: text
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    return lambda text: pattern.sub(lambda found: names[found[1]], text)


def _named_by_chance(graph_module: fx.GraphModule) -> Iterator[str]:
    for module in graph_module.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                yield from _symbols_of(value)
            elif value is not None:
                for part in tree_leaves(value):
                    yield from _symbols_of(part)


def _symbols_of(value: Any) -> Iterator[str]:
    if isinstance(value, torch.SymInt):
        sizes: tuple[Any, ...] = (value,)
    elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
        sizes = tuple(value.shape)
    else:
        return
    for size in sizes:
        if isinstance(size, torch.SymInt):
            for symbol in sorted(size.node.expr.free_symbols, key=str):
                if is_named_by_chance(size, symbol):
                    yield str(symbol)
