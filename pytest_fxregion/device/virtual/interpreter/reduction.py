"""``tl.reduce`` and ``tl.associative_scan`` with any combine function, a whole axis at once.

Triton's interpreter calls Python once per element; here the combine function gets whole arrays:
a reduction is a tree of neighbouring pairs, a scan doubles its reach (Hillis and Steele 1986), so
both need as many calls as the length has bits.  The order of the elements is kept, as
non-commutative functions ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

Array = npt.NDArray[Any]


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    """Combine the elements along ``axis`` (of all axes, if ``None``) of one tensor or several."""
    several = isinstance(input, tuple)
    tensors: Sequence[Any] = input if several else (input,)
    axis = getattr(axis, "value", axis)
    keep_dims = getattr(keep_dims, "value", keep_dims)
    shape = list(tensors[0].shape)
    arrays = _whole(tensors)
    if axis is None:
        arrays = [a.reshape(a.shape[0], -1) for a in arrays]
        left = [1] * len(shape) if keep_dims else []
        position = 1
    else:
        axis %= len(shape)
        left = [*shape[:axis], *([1] if keep_dims else []), *shape[axis + 1 :]]
        position = axis + 1
    dtypes = [t.dtype for t in tensors]
    parts = [np.moveaxis(a, position, 0) for a in arrays]
    while parts[0].shape[0] > 1:
        length = parts[0].shape[0]
        pairs = length // 2 * 2
        joined = _combine(
            combine_fn, [p[0:pairs:2] for p in parts], [p[1:pairs:2] for p in parts], dtypes
        )
        rest = [p[pairs:] for p in parts]
        parts = [
            np.concatenate([j, r]) if length % 2 else j for j, r in zip(joined, rest, strict=True)
        ]
    results = tuple(
        _tensor(p[0].reshape(p.shape[1], *left), dtype, left)
        for p, dtype in zip(parts, dtypes, strict=True)
    )
    return results if several else results[0]


def associative_scan(
    input: Any, axis: int, combine_fn: Any, reverse: bool = False, **_: Any
) -> Any:
    """Return, at each place along ``axis``, the combination of everything up to it."""
    several = isinstance(input, tuple)
    tensors: Sequence[Any] = input if several else (input,)
    axis = getattr(axis, "value", axis)
    reverse = getattr(reverse, "value", reverse)
    shape = list(tensors[0].shape)
    position = axis % len(shape) + 1
    dtypes = [t.dtype for t in tensors]
    parts = [np.moveaxis(a, position, 0) for a in _whole(tensors)]
    if reverse:
        parts = [p[::-1] for p in parts]
    reach = 1
    while reach < parts[0].shape[0]:
        joined = _combine(
            combine_fn, [p[:-reach] for p in parts], [p[reach:] for p in parts], dtypes
        )
        parts = [np.concatenate([p[:reach], j]) for p, j in zip(parts, joined, strict=True)]
        reach *= 2
    if reverse:
        parts = [p[::-1] for p in parts]
    results = tuple(
        _tensor(np.moveaxis(p, 0, position), dtype, shape)
        for p, dtype in zip(parts, dtypes, strict=True)
    )
    return results if several else results[0]


def _whole(tensors: Sequence[Any]) -> list[Array]:
    """The data of tensors of one shape, every axis at full length (constants are kept short)."""
    shape = tuple(tensors[0].shape)
    arrays = [t.handle.data for t in tensors]
    programs = max(a.shape[0] for a in arrays)
    return [
        np.broadcast_to(
            a if a.ndim == len(shape) + 1 else a.reshape(a.shape[0], *(1,) * len(shape)),
            (programs, *shape),
        )
        for a in arrays
    ]


def _tensor(data: Array, dtype: Any, shape: Sequence[int]) -> Any:
    kind = tl.block_type(dtype.scalar, list(shape)) if shape else dtype.scalar
    return tl.tensor(TensorHandle(np.ascontiguousarray(data), dtype.scalar), kind)


def _combine(
    combine_fn: Any, left: Sequence[Array], right: Sequence[Array], dtypes: Sequence[Any]
) -> list[Array]:
    # The combine function is written for scalars; to it a flat block is a scalar of many programs.
    arguments = [
        tl.tensor(TensorHandle(a.reshape(-1), d.scalar), d.scalar)
        for side in (left, right)
        for a, d in zip(side, dtypes, strict=True)
    ]
    out = combine_fn(*arguments)
    results = out if isinstance(out, tuple) else (out,)
    return [
        np.broadcast_to(r.handle.data if isinstance(r, tl.tensor) else np.asarray(r), (like.size,))
        .astype(like.dtype, copy=False)
        .reshape(like.shape)
        for r, like in zip(results, left, strict=True)
    ]
