"""Tensors: what kind one is, what it is made of, and whether it holds numbers."""

from __future__ import annotations

import typing
from typing import Any

import torch

# The mode and tensor class of values without data.
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

# The tensor class that stands for a functionalised value while AOTAutograd traces.
from torch._subclasses.functional_tensor import FunctionalTensor as FunctionalTensor

# Whether a value is of a tensor subclass that says which tensors it is made of.
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def new_fake_mode() -> FakeTensorMode:
    """A mode for values of static shape."""
    return FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())


def has_content(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` itself holds numbers (it may still be a subclass made of such ones)."""
    return not (tensor.is_meta or isinstance(tensor, (FakeTensor, FunctionalTensor)))


def is_plain_tensor(value: torch.Tensor) -> bool:
    """Whether a (fake) tensor is strided and of no subclass with a behaviour of its own."""
    plain = type(value) in (FakeTensor, torch.Tensor, torch.nn.Parameter)
    return plain and value.layout is torch.strided


def is_wrapper_subclass(value: object) -> typing.TypeGuard[Any]:
    """Whether a value is a tensor made of other tensors, by ``__tensor_flatten__``."""
    return bool(is_traceable_wrapper_subclass(value))


def inner_tensors(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that a wrapper subclass is made of, down to plain ones; else itself.

    ``__tensor_flatten__`` and ``is_traceable_wrapper_subclass``: 2.11 to 2.15.
    """
    if not is_traceable_wrapper_subclass(tensor):
        return (tensor,)
    names, _ = tensor.__tensor_flatten__()
    parts = [getattr(tensor, name) for name in names]
    return tuple(
        inner for part in parts if isinstance(part, torch.Tensor) for inner in inner_tensors(part)
    )


def untyped_size(tensor: torch.Tensor) -> int | torch.SymInt:
    """Return the bytes of a tensor's elements, an expression where its shape is one."""
    return tensor.numel() * tensor.element_size()


def is_known_zero(tensor: torch.Tensor) -> bool:
    """Whether a tensor is zeros without memory, which autograd adds by taking the other operand.

    ``Tensor._is_zerotensor``: 2.11 to 2.15.
    """
    return tensor._is_zerotensor()


def storage_key(value: object) -> tuple[int, ...]:
    """Identities of the storages of a tensor, or of the tensors of a sequence; else empty."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return ()
        return (value.untyped_storage()._cdata,)
    if isinstance(value, (tuple, list)):
        return tuple(key for item in value for key in storage_key(item))
    return ()


def shard_order_of(tensor: Any) -> dict[int, tuple[int, ...]]:
    """Return, by tensor dimension, the mesh dimensions that shard a DTensor, in their order.

    ``DTensorSpec.shard_order``: 2.11 to 2.15.
    """
    order = getattr(tensor._spec, "shard_order", None) or ()
    return {entry.tensor_dim: tuple(entry.mesh_dims) for entry in order}
