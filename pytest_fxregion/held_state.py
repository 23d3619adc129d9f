"""What a call can change besides its arguments, kept through one call of it.

Comes in: the modules, optimizers and tensors that a call can reach.  Goes out: what the call made
of them, by name; afterwards all of it is as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from pytest_fxregion._torch.dynamo import forget_compiled_call
from pytest_fxregion._torch.tensors import is_wrapper_subclass, storage_key
from pytest_fxregion.call import Call, brought_along, named_parameters, parameters_of
from pytest_fxregion.containers import flat, flatten_with_names, replaced
from pytest_fxregion.contents import (
    Content,
    Contents,
    draws_random_numbers,
    random_numbers,
)
from pytest_fxregion.errors import FxRegionError
from pytest_fxregion.objects import PLAIN, is_a, is_users_own

# What every module has: whether it trains, its hooks, its tables of parameters and buffers.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_TABLES = frozenset(map(type, vars(nn.Module()).values())) - PLAIN


@dataclass
class HeldState:
    """The modules, optimizers and tensors that a call can reach besides its arguments, by name."""

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer]
    tensors: Mapping[str, torch.Tensor]
    _values: dict[int, torch.Tensor] = field(default_factory=dict)
    _unchanged: set[int] = field(default_factory=set)  # of those compared after the call
    # What is not copied of the arguments, as objects that hold no tensor, and what the function
    # brings along.  By name, the objects among the latter; before the call, their leaves.
    _around: list[Any] = field(default_factory=list)
    _objects: Mapping[str, Any] = field(default_factory=dict)
    _leaves: list[tuple[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, call: Call) -> HeldState:
        """Return that of a call."""
        brought = brought_along(call.function)
        objects = {name: value for name, value in brought.items() if is_users_own(value)}
        generators = filter(draws_random_numbers, brought.values())
        reached = call.reached()
        return cls(
            reached.modules,
            reached.optimizers,
            reached.tensors,
            _around=[*flat((call.args, call.kwargs)), *objects.values(), *generators],
            _objects=objects,
        )

    def named(self) -> dict[str, torch.Tensor]:
        """Return parameters, buffers and other tensors as they are now, each name once."""
        found: dict[str, torch.Tensor] = dict(named_parameters(self.modules))
        for name, buffer in self._buffers():
            found.setdefault(name, buffer)
        return {**found, **self.tensors}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Put everything back afterwards, gradients included; compiled modules are as written.

        Gradients are None during the call, but for those that an optimizer is to use: it gets
        copies.
        """
        every = [m for module in self.modules.values() for m in module.modules()]
        tensors = {id(t): t for m in every for t in _own_tensors(m)}
        tensors |= {id(t): t for t in self.tensors.values()}
        states = [optimizer.state for optimizer in self.optimizers.values()]
        for state in states:
            for entry in state.values():
                tensors |= {id(t): t for t in entry.values() if is_a(t, torch.Tensor)}
        used = {id(t) for optimizer in self.optimizers.values() for t in parameters_of(optimizer)}
        places = {key: tensor.detach() for key, tensor in tensors.items()}
        self._values = {key: place.clone() for key, place in places.items()}
        gradients = {key: tensor.grad for key, tensor in tensors.items() if tensor.is_leaf}
        for key, gradient in gradients.items():
            tensors[key].grad = gradient.clone() if gradient is not None and key in used else None
        # A module may also replace a buffer, or count in an attribute.
        tables = [table for m in every for table in _tables(m)]
        empty = [table for table in tables if not table]  # most of them
        held: list[Any] = [*map(vars, every), *filter(None, tables)]
        held += [d for state in states for d in (state, *state.values())]
        held += [g for optimizer in self.optimizers.values() for g in optimizer.param_groups]
        put_back = [Content.of(holder).put_back for holder in held]
        around = [self._around, *(_own_attributes(m) for m in every)]
        put_back += [Contents(around).put_back, *random_numbers()]
        self._leaves = self._flat()
        for module in every:
            forget_compiled_call(module)
        try:
            yield
        finally:
            for each in put_back:
                each()
            for table in empty:
                table.clear()
            with torch.no_grad():
                for key, tensor in tensors.items():
                    if _memory(tensor) != _memory(places[key]):
                        tensor.data = places[key]
                    elif key in self._unchanged:
                        continue
                    if not _are_equal(tensor, self._values[key]):
                        tensor.copy_(self._values[key])
                for key, gradient in gradients.items():
                    tensors[key].grad = gradient

    def changed(self) -> dict[str, Any]:
        """Return what there is after the call: every buffer, and what the call changed else."""
        found: dict[str, Any] = dict(self._buffers())
        for name, tensor in (*named_parameters(self.modules), *self.tensors.items()):
            before = self._values.get(id(tensor))
            if before is not None and _are_equal(tensor, before):
                self._unchanged.add(id(tensor))
            else:
                found.setdefault(name, tensor)
        for name, leaf in replaced(self._leaves, self._flat()).items():
            found.setdefault(name, leaf)
        for name, optimizer in self.optimizers.items():
            for number, parameter in enumerate(parameters_of(optimizer)):
                for key, value in optimizer.state.get(parameter, {}).items():
                    # Dynamo has the count of steps on the device, as if it were capturable.
                    is_count = torch.is_tensor(value) and not value.dim()
                    found[f"{name}.state[{number}][{key!r}]"] = value.cpu() if is_count else value
        return {
            f"{name} after the call": value.detach().clone() if torch.is_tensor(value) else value
            for name, value in found.items()
        }

    def _buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        for prefix, module in self.modules.items():
            for name, buffer in module.named_buffers():
                yield f"{prefix}.{name}" if prefix else name, buffer

    def _flat(self) -> list[tuple[str, Any]]:
        """Return the leaves of what modules have in attributes, and of objects."""
        found = dict(self._objects)
        for prefix, module in self.modules.items():
            for path, inner in module.named_modules(prefix=prefix):
                dot = f"{path}." if path else ""
                found |= {dot + key: value for key, value in _own_attributes(inner).items()}
        return flatten_with_names(found)


def _own_tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield its parameters and buffers, without those of the modules in it."""
    for name, parameter in nn.Module.named_parameters(module, recurse=False):
        if is_lazy(parameter):
            raise FxRegionError(
                f"{name!r} of a {type(module).__name__} has no shape before its first call: call "
                "the module once before it is handed to fxregion"
            )
        yield parameter
    for _, buffer in nn.Module.named_buffers(module, recurse=False):
        yield buffer


def _memory(tensor: torch.Tensor) -> object:
    """Return what says where a tensor's elements lie; None if that cannot be told."""
    if is_wrapper_subclass(tensor) or tensor.layout is not torch.strided:
        return None
    form = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
    return (*form, storage_key(tensor))


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if (one.dtype, one.device, one.layout) != (other.dtype, other.device, other.layout):
        return False
    return one.shape == other.shape and all(map(torch.equal, _stored(one), _stored(other)))


def _stored(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that hold a sparse tensor, which ``torch.equal`` does not take."""
    if tensor.layout is torch.strided:
        return (tensor,)
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        return tensor.indices(), tensor.values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def _tables(module: nn.Module) -> list[Any]:
    """Return the tables that every module has: of parameters, buffers, modules and hooks."""
    own = vars(module).items()
    return [value for key, value in own if key in _OF_EVERY_MODULE and type(value) in _TABLES]


def _own_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes that not every module has."""
    return {key: value for key, value in vars(module).items() if key not in _OF_EVERY_MODULE}
