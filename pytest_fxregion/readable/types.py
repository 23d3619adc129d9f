"""A node's ``val`` in, the text of its type out: ``f32[10][1]cuda:0``, ``Sym(s77)``.

The form is the one of torch's own ``print_readable`` with strides and devices: dtype, shape,
stride, device; a tensor subclass's name around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from pytest_fxregion._torch.graphs import TensorMetadata
from pytest_fxregion._torch.tensors import FakeTensor, shard_order_of

# torch's short names.  Its own table lists the same ones, but where it lives and what it does with
# a dtype it does not list has changed between versions; such a dtype goes by its full name here.
_SHORT_DTYPES = {
    "bool": "b8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "complex32": "c32",
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float4_e2m1fn_x2": "f4e2m1fnx2",
    "bits8": "b8x1",
    "bits16": "b16x1",
    "bits1x8": "b1x8",
    "bits2x4": "b2x4",
    "bits4x2": "b4x2",
}

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Layouts whose tensors have no strides, and to which torch's text gives no annotation.
_COMPRESSED = frozenset({torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


def dtype_text(dtype: torch.dtype) -> str:
    """Return the short name of ``dtype`` (``f32``), or its full name where it has none."""
    name = str(dtype).removeprefix("torch.")
    return _SHORT_DTYPES.get(name, name)


def shape_text(sizes: Iterable[object]) -> str:
    """Return ``[2, s77]`` for a shape or a stride."""
    return f"[{', '.join(map(str, sizes))}]"


def tensor_text(tensor: torch.Tensor) -> str:
    """Return dtype, shape, stride and device: ``f32[10][1]cuda:0``.

    A tensor without strides shows its layout in their place: ``f32[3, 3][sparse_csr]cpu``.
    """
    layout = tensor.layout
    if layout is torch.strided or layout is torch.jagged:
        return _dense_text(tensor)
    place = f"[{str(layout).removeprefix('torch.')}]"
    return f"{dtype_text(tensor.dtype)}{shape_text(tensor.shape)}{place}{tensor.device}"


def _dense_text(tensor: torch.Tensor) -> str:
    try:
        sizes = shape_text(tensor.shape) + shape_text(tensor.stride())
    except RuntimeError:  # a nested tensor of the older kind has neither
        sizes = "[?][?]"
    return f"{dtype_text(tensor.dtype)}{sizes}{tensor.device}"


def annotation_text(meta: Mapping[str, Any]) -> str | None:
    """Return the type of the value that a node with ``meta`` computes, or None if it has none.

    ``meta`` is :attr:`torch.fx.Node.meta`; its ``val`` is used, else ``tensor_meta`` (of shape
    propagation), else ``example_value`` (of dynamo).  Tuples have none: their parts do.
    """
    value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
    if isinstance(value, torch.Tensor):
        return _annotated_tensor(value)
    if isinstance(value, _SYMBOLIC):
        return f"Sym({value})"
    if isinstance(value, TensorMetadata):
        return f"{dtype_text(value.dtype)}{shape_text(value.shape)}"
    return None


def _annotated_tensor(value: torch.Tensor) -> str | None:
    layout = value.layout
    if layout in _COMPRESSED:
        return None
    if layout is torch.sparse_coo:
        # Of fake ones torch says that all strides are 0; of real ones it need not say anything.
        stride = shape_text(0 for _ in value.shape)
        core = f"{dtype_text(value.dtype)}{shape_text(value.shape)}{stride}{value.device}"
    else:
        core = _dense_text(value)
    kind = type(value)
    if kind is FakeTensor or kind is torch.Tensor or isinstance(value, FakeTensor):
        return core
    placements = getattr(value, "placements", None)
    if kind.__name__ == "DTensor" and placements is not None:
        return f"DTensor({core}, {_placements_text(placements, shard_order_of(value))})"
    return f"{kind.__name__}({core})"


def _placements_text(placements: Iterable[Any], shard_order: Mapping[int, tuple[int, ...]]) -> str:
    """Return the placement on each mesh dimension, one after another: ``S(0)R``.

    Where several mesh dimensions shard one tensor dimension, each carries the position at which it
    does so: ``S(0)[1]S(0)[0]``.
    """
    parts = []
    for mesh_dim, placement in enumerate(placements):
        order = shard_order.get(getattr(placement, "dim", -1), ())
        position = f"[{order.index(mesh_dim)}]" if len(order) > 1 and mesh_dim in order else ""
        parts.append(f"{placement}{position}")
    return "".join(parts)


def layout_note(meta: Mapping[str, Any]) -> str | None:
    """Return the type with its layout where :func:`annotation_text` does not show the layout."""
    value = meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout in (torch.strided, torch.jagged):
        return None
    return tensor_text(value)
