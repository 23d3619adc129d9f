"""The symbols of dynamic shapes: which a value is made of, and where in a graph each can be read.

Inductor reads the sizes of a graph's inputs at run time, and so must find every symbol as a plain
size, stride or number of some input; it does not solve ``2*u0 == 6`` (pytorch#167012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import Node

from pytest_fxregion._torch.operators import OpOverload

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class SymbolSource:
    """Where a symbol can be read: the node's value itself, or its size along ``dim``."""

    node: Node
    dim: int | None
    value: object = field(compare=False)  # symbolic numbers have no hash


def free_symbols_of(value: object) -> set[object]:
    """Return the symbols of a number, or of a tensor's sizes, strides and storage offset."""
    return {symbol for number in _numbers(value) for symbol in _expression(number).free_symbols}


def plain_symbols_of(value: object) -> set[object]:
    """Return the symbols that are by themselves a number, or a size or stride of a tensor."""
    expressions = (_expression(number) for number in _numbers(value))
    return {expression for expression in expressions if expression.is_Symbol}


def symbol_sources(
    nodes: Sequence[Node], values: Callable[[Node], object]
) -> dict[object, SymbolSource]:
    """For each symbol a number that the graph takes, else the first node from which it can be read.

    What has a symbol in its size comes after that node; a number of a later one is not there yet.
    """
    found: dict[object, SymbolSource] = {}
    for node in sorted(nodes, key=lambda node: not _is_number_taken(node, values)):
        value = values(node)
        if isinstance(value, torch.SymInt):
            if _expression(value).is_Symbol:
                found.setdefault(_expression(value), SymbolSource(node, None, value))
        elif isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and _expression(size).is_Symbol:
                    found.setdefault(_expression(size), SymbolSource(node, dim, size))
    return found


def _is_number_taken(node: Node, values: Callable[[Node], object]) -> bool:
    return node.op == "placeholder" and isinstance(values(node), torch.SymInt)


def is_arithmetic_on_sizes(node: Node) -> bool:
    """Whether the node reads a tensor's size or computes with symbolic numbers, and no more."""
    if not isinstance(node.meta.get("val"), _NUMBERS):
        return False
    target = node.target
    if isinstance(target, OpOverload):
        return str(target.name()).startswith("aten::sym_")
    return getattr(target, "__module__", None) in ("_operator", "math", "torch")


def _numbers(value: object) -> Iterator[torch.SymInt | torch.SymFloat | torch.SymBool]:
    if isinstance(value, _NUMBERS):
        yield value
    elif isinstance(value, torch.Tensor):
        sizes: Sequence[object] = value.shape
        if value.layout is torch.strided:
            sizes = (*sizes, *value.stride(), value.storage_offset())
        for size in sizes:
            if isinstance(size, _NUMBERS):
                yield size
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _numbers(item)


def _expression(number: torch.SymInt | torch.SymFloat | torch.SymBool):  # type: ignore[no-untyped-def]  # sympy.Expr, which has no types
    return number.node.expr


def shape_environment_of(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> object:
    """Return the environment in which the number's symbols have their meaning."""
    return number.node.shape_env
