"""Sizes that are expressions of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

# Whether a condition on symbols holds always, without a guard.
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.proxy import GraphAppendingTracer

# Computes an expression of symbols with other things in their place, 2.11 to 2.15.
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis


def size_hint(size: int | torch.SymInt) -> int:
    """Return the number that a size has in the traced call; -1 if only running it would tell."""
    if isinstance(size, int):
        return size
    # A length of a jagged tensor that is not being traced has no hint; it is no number at all.
    hint = getattr(size.node, "hint", None)
    return -1 if hint is None else int(hint)


def possible_size(size: int | torch.SymInt) -> int:
    """Return a number that a size may have, for all sizes of a graph alike.

    That of the traced call; for a symbol of which only running would tell, the least that it may be
    and that is not special.  ``ShapeEnv.backed_var_to_val``, ``var_to_range``: 2.11 to 2.15.
    """
    if isinstance(size, int):
        return size
    known, ranges = size.node.shape_env.backed_var_to_val, size.node.shape_env.var_to_range
    unknown = {s: max(2, ranges[s].lower) for s in size.node.expr.free_symbols if s not in known}
    return int(size.node.expr.xreplace({**known, **unknown}))


def is_known_equal(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two numbers are equal whatever the symbols in them are; sets no guard."""
    return statically_known_true(one == other)


def written_number(
    graph: torch.fx.Graph, number: torch.SymInt, symbols: Mapping[object, torch.fx.Node]
) -> int | torch.fx.Node:
    """Write what computes a number into a graph, from the nodes that have its symbols' values."""
    tracer = GraphAppendingTracer(graph)
    values: Any = {symbol: torch.fx.Proxy(node, tracer) for symbol, node in symbols.items()}
    computed = sympy_interp(PythonReferenceAnalysis, values, number.node.expr)
    return computed.node if isinstance(computed, torch.fx.Proxy) else int(computed)


def is_named_by_chance(size: torch.SymInt, symbol: Any) -> bool:
    """Whether a symbol of ``size`` is that of a tensor that torch had no name for, 2.11 to 2.15."""
    sources = getattr(size.node.shape_env, "var_to_sources", {}).get(symbol, ())
    names = (source.name() if callable(source.name) else source.name for source in sources)
    return any("__meta_utils_unknown_tensor" in name for name in names)
