"""The call under test: a function or module with its arguments, and what else it brings along.

Comes in: what the user passed to the fixture.  Goes out: names for every argument, module and
tensor that the call can reach, and the same call in float64.  Nothing is called here.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from pytest_fxregion._torch.autograd import hooks_of, post_accumulate_hooks_of
from pytest_fxregion._torch.dynamo import is_compiled
from pytest_fxregion.containers import flatten_with_names, mapped
from pytest_fxregion.objects import is_a, is_users_own

T = TypeVar("T")


@dataclass(frozen=True)
class Reached:
    """What a call can reach, each under one name.

    ``modules`` (by the prefix of its parameters' names) and ``optimizers`` are the function itself,
    what it brings along (:func:`brought_along`) and arguments.  ``tensors`` are those that the
    function brings along, and parameters of optimizers that have no other name.
    """

    modules: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    tensors: dict[str, torch.Tensor]


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

    def reached(self) -> Reached:
        """Return what the call can reach now.  It is all looked through, so ask once."""
        brought, arguments = brought_along(self.function), self.argument_names()
        leaves = flatten_with_names({**brought, **arguments}, plain=False)
        modules, optimizers = _of_kind(leaves, nn.Module), _of_kind(leaves, Optimizer)
        found = flatten_with_names(brought, plain=False)
        tensors = {name: leaf for name, leaf in found if is_a(leaf, torch.Tensor)}
        passed = [leaf for _, leaf in flatten_with_names(arguments, plain=False)]
        parameters = [parameter for _, parameter in named_parameters(modules)]
        known = {id(t) for t in (*tensors.values(), *passed, *parameters)}
        for name, optimizer in optimizers.items():
            for number, parameter in enumerate(parameters_of(optimizer)):
                if id(parameter) not in known:
                    tensors[f"{name}.params[{number}]"] = parameter
        return Reached(modules, optimizers, tensors)

    def reaches_compiled(self) -> bool:
        """Whether something that the call can reach is what ``torch.compile`` gave."""
        every = {**brought_along(self.function), **self.argument_names()}
        leaves = flatten_with_names(every, plain=False)
        modules = _of_kind(leaves, nn.Module).values()
        inner = (m for module in modules for m in module.modules())
        return any(map(is_compiled, (*(leaf for _, leaf in leaves), *inner)))

    def in_float64(self) -> Call:
        """Return the same call with every floating-point argument and parameter in float64.

        What is passed twice is one object there too.  The same holds for what the function closes
        over and what ``partial`` has bound; globals stay as they are.
        """
        widening = _Widening()
        args, kwargs = widening.tree((self.args, self.kwargs))
        return Call(widening.tree(self.function), args, kwargs)


class _Widening:
    """Makes float64 twins of modules, tensors and what holds them; each object has one."""

    def __init__(self) -> None:
        self._modules: dict[int, Any] = {}
        self._others: dict[int, Any] = {}

    def __call__(self, leaf: Any) -> Any:
        if is_a(leaf, nn.Module):
            return self._module(leaf)
        if is_a(leaf, Optimizer):
            return self._optimizer(leaf)
        if is_a(leaf, MethodType):
            home = self.tree(leaf.__self__)
            return leaf if home is leaf.__self__ else getattr(home, leaf.__name__)
        if is_a(leaf, partial):
            args, kwargs = self.tree((leaf.args, leaf.keywords))
            return partial(self.tree(leaf.func), *args, **kwargs)
        if is_a(leaf, torch.Tensor):
            return self._tensor(leaf)
        if is_a(leaf, FunctionType) and leaf.__closure__:
            return self._others.get(id(leaf)) or self._closure(leaf)
        return leaf

    def tree(self, tree: Any) -> Any:
        """Return the twin of what holds others."""
        return mapped(self, tree, self._others)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        known = self._modules.get(id(tensor), self._others.get(id(tensor)))
        if known is None:
            known = self._others[id(tensor)] = widened(tensor)
            hooks_copied(tensor, known)
        return known

    def _module(self, module: nn.Module) -> Any:
        twin = copy.deepcopy(module, self._modules).double()
        twins = dict(twin.named_parameters(remove_duplicate=False))
        for name, parameter in module.named_parameters():
            if not hooks_of(twins[name]) and not post_accumulate_hooks_of(twins[name]):
                hooks_copied(parameter, twins[name])  # a deep copy has none
        return twin

    def _optimizer(self, optimizer: Optimizer) -> Any:
        for parameter in parameters_of(optimizer):
            self._modules[id(parameter)] = self._tensor(parameter)
        twin = copy.deepcopy(optimizer, self._modules)
        for parameter, wide in zip(parameters_of(optimizer), parameters_of(twin), strict=True):
            if parameter.grad is not None:
                wide.grad = widened(parameter.grad)
            state = twin.state.get(wide, {})
            state |= {k: widened(v) for k, v in state.items() if isinstance(v, torch.Tensor)}
        return twin

    def _closure(self, function: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in function.__closure__ or ())
        code, name = function.__code__, function.__name__
        twin = FunctionType(code, function.__globals__, name, function.__defaults__, cells)
        twin.__kwdefaults__ = function.__kwdefaults__
        self._others[id(function)] = twin  # before its cells: one of them may hold it
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # a cell that is not filled yet
                cell.cell_contents = self.tree(original.cell_contents)
        return twin


def _of_kind(leaves: Iterable[tuple[str, Any]], kind: type[T]) -> dict[str, T]:
    """Return those of a kind, each by its first name."""
    unique: dict[int, tuple[str, T]] = {}
    for name, leaf in leaves:
        if is_a(leaf, kind):
            unique.setdefault(id(leaf), (name, leaf))
    return dict(unique.values())


def brought_along(function: Any) -> dict[str, Any]:
    """Return what a function uses besides its arguments, by name.

    A module, an object that can be called, or that whose method it is, has the empty name.  Else:
    what ``partial`` has bound, defaults, what the function closes over, globals that it names, and
    the same again of functions among those that stand in the same file.
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
            if is_a(value, FunctionType) and value.__module__ == home.__module__:
                pending.append(value)
    return found


def _bound_names(function: Any) -> dict[str, Any]:
    if isinstance(function, nn.Module):
        return {"": function}
    if isinstance(function, partial):
        bound = inspect.signature(function.func).bind_partial(*function.args, **function.keywords)
        return {**bound.arguments, **_bound_names(function.func)}
    if isinstance(function, MethodType):
        return {"": function.__self__}
    if not isinstance(function, FunctionType):
        return {"": function} if is_users_own(function) else {}  # an object that can be called
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
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(wide, tensor.requires_grad)
    return wide.requires_grad_(tensor.requires_grad)


def named_leaves(call: Call) -> dict[int, str]:
    """Return the names of the tensors that gradients are collected for, by identity."""
    names: dict[int, str] = {}
    arguments = flatten_with_names(call.argument_names(), plain=False)
    reached = call.reached()
    parameters = named_parameters(reached.modules)
    for name, value in (*arguments, *parameters, *reached.tensors.items()):
        if is_a(value, torch.Tensor):
            names.setdefault(id(value), name)
    return names


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return the tensors that an optimizer changes, in order of its groups."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def hooks_copied(original: torch.Tensor, copied: torch.Tensor) -> None:
    """Give a copy the hooks that its original calls with its gradient."""
    if copied.requires_grad:
        for hook in hooks_of(original):
            copied.register_hook(hook)
        for hook in post_accumulate_hooks_of(original):
            copied.register_post_accumulate_grad_hook(hook)


def named_parameters(modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters of modules that are named by prefix, under their full names."""
    for prefix, module in modules.items():
        for name, parameter in module.named_parameters():
            yield f"{prefix}.{name}" if prefix else name, parameter
