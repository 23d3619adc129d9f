"""The call under test: a function or module with its arguments, and what else it brings along.

Comes in: what the user passed to the fixture.  Goes out: names for every argument, module and
tensor that the call can reach, and the same call in float64.  Nothing is called here.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from pytest_fxregion._torch import tree_flatten_with_names, tree_map


@dataclass(frozen=True)
class Call:
    """A function or module and the arguments to call it with; the arguments are never changed."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def argument_names(self) -> dict[str, Any]:
        """Return the arguments by parameter name, containers as they are."""
        function = self.function.forward if isinstance(self.function, nn.Module) else self.function
        try:
            bound = inspect.signature(function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):
            return {**{f"args[{i}]": a for i, a in enumerate(self.args)}, **self.kwargs}
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                # A positional-only parameter may have the name of one of them.
                named.update({f"{name}[{k!r}]" if k in named else k: value[k] for k in value})
            else:
                named[name] = value
        return named

    def modules(self) -> dict[str, nn.Module]:
        """Return every module that the call can reach, by the prefix of its parameters' names.

        Those are the function itself, what it brings along (:func:`brought_along`) and arguments.
        A module reached twice is named once.
        """
        found = {**brought_along(self.function), **self.argument_names()}
        unique: dict[int, tuple[str, nn.Module]] = {}
        for prefix, leaf in tree_flatten_with_names(found):
            if isinstance(leaf, nn.Module):
                unique.setdefault(id(leaf), (prefix, leaf))
        return dict(unique.values())

    def brought_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that the function brings along, by name."""
        found = tree_flatten_with_names(brought_along(self.function))
        return {name: leaf for name, leaf in found if isinstance(leaf, torch.Tensor)}

    def in_float64(self) -> Call:
        """Return the same call with every floating-point argument and parameter in float64.

        What is passed twice is one object there too.  The same holds for what the function closes
        over and what ``partial`` has bound; globals stay as they are.
        """
        widening = _Widening()
        args, kwargs = tree_map(widening, (self.args, self.kwargs))
        return Call(widening(self.function), args, kwargs)


class _Widening:
    """Makes float64 twins of modules, tensors and what holds them; each object has one."""

    def __init__(self) -> None:
        self._modules: dict[int, Any] = {}
        self._others: dict[int, Any] = {}

    def __call__(self, leaf: Any) -> Any:
        if isinstance(leaf, nn.Module):
            return copy.deepcopy(leaf, self._modules).double()
        if isinstance(leaf, MethodType) and isinstance(leaf.__self__, nn.Module):
            return getattr(self(leaf.__self__), leaf.__name__)
        if isinstance(leaf, partial):
            args, kwargs = tree_map(self, (leaf.args, leaf.keywords))
            return partial(self(leaf.func), *args, **kwargs)
        if isinstance(leaf, torch.Tensor):
            return self._others.setdefault(id(leaf), widened(leaf))
        if isinstance(leaf, FunctionType) and leaf.__closure__:
            return self._others.get(id(leaf)) or self._closure(leaf)
        return leaf

    def _closure(self, function: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in function.__closure__ or ())
        code, name = function.__code__, function.__name__
        twin = FunctionType(code, function.__globals__, name, function.__defaults__, cells)
        twin.__kwdefaults__ = function.__kwdefaults__
        self._others[id(function)] = twin  # before its cells: one of them may hold it
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # a cell that is not filled yet
                cell.cell_contents = tree_map(self, original.cell_contents)
        return twin


def brought_along(function: Any) -> dict[str, Any]:
    """Return what a function uses besides its arguments, by name.

    A module, or the module whose method it is, has the empty name.  Else: what ``partial`` has
    bound, defaults, what the function closes over, globals that it names, and the same again of
    functions among those that stand in the same file.
    """
    home = function
    while isinstance(home, partial):
        home = home.func
    found: dict[str, Any] = {}
    pending, seen = [function], set[int]()
    while pending:
        current = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        for name, value in _bound_names(current).items():
            if found.setdefault(name, value) is not value:
                found[f"{current.__name__}.{name}"] = value
            if isinstance(value, FunctionType) and value.__module__ == home.__module__:
                pending.append(value)
    return found


def _bound_names(function: Any) -> dict[str, Any]:
    if isinstance(function, nn.Module):
        return {"": function}
    if isinstance(function, partial):
        bound = inspect.signature(function.func).bind_partial(*function.args, **function.keywords)
        return {**bound.arguments, **_bound_names(function.func)}
    if isinstance(function, MethodType):
        return {"": function.__self__} if isinstance(function.__self__, nn.Module) else {}
    if not isinstance(function, FunctionType):
        return {}
    names: dict[str, Any] = {
        parameter.name: parameter.default
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is not parameter.empty
    }
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with suppress(ValueError):  # a cell that is not filled yet
            names[name] = cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            names.setdefault(name, function.__globals__[name])
    return names


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return a leaf of the same values in double precision; integers and booleans as they are."""
    if tensor.is_complex():
        wide = tensor.detach().to(torch.complex128)
    elif tensor.is_floating_point():
        wide = tensor.detach().double()
    else:
        return tensor
    return wide.requires_grad_(tensor.requires_grad)


def named_leaves(call: Call) -> dict[int, str]:
    """Return the names of the tensors that gradients are collected for, by identity."""
    names: dict[int, str] = {}
    arguments = tree_flatten_with_names(call.argument_names())
    brought = call.brought_tensors().items()
    for name, value in (*arguments, *named_parameters(call.modules()), *brought):
        if isinstance(value, torch.Tensor):
            names.setdefault(id(value), name)
    return names


def named_parameters(modules: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters of modules that are named by prefix, under their full names."""
    for prefix, module in modules.items():
        for name, parameter in module.named_parameters():
            yield f"{prefix}.{name}" if prefix else name, parameter
