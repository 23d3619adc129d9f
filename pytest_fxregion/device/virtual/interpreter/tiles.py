"""Block pointers and tensor descriptors: tiles of a tensor that is described once.

Part of :class:`.builder.GridBuilder`: addresses of a tile in every program of a batch, and which of
them lie inside of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from triton._C.libtriton import ir
from triton.runtime import interpreter

from pytest_fxregion.device.virtual.interpreter.memory import Memory
from pytest_fxregion.device.virtual.interpreter.number_formats import encode, storage_dtype

Array = npt.NDArray[Any]
Handle = interpreter.TensorHandle


class Tiles(interpreter.InterpreterBuilder):  # type: ignore[misc]
    """The operations of a builder on block pointers and tensor descriptors."""

    memory: Memory

    def _tile(
        self,
        base: Any,
        offsets: Sequence[Any],
        strides: Sequence[Any],
        shape: Sequence[Any],
        block_shape: Sequence[int],
        checked: Sequence[int],
    ) -> tuple[Any, Array]:
        rank = len(block_shape)
        width = max(1, base.get_element_ty().primitive_bitwidth // 8)
        pointers = base.data.reshape(-1, *(1,) * rank)
        inside = np.ones((1,) * (rank + 1), dtype=np.bool_)
        for axis in range(rank):
            place = [1] * (rank + 1)
            place[axis + 1] = block_shape[axis]
            steps = np.arange(block_shape[axis], dtype=np.int64).reshape(place)
            start, stride, limit = (
                h.data.astype(np.int64).reshape(-1, *(1,) * rank)
                for h in (offsets[axis], strides[axis], shape[axis])
            )
            index = start + steps
            pointers = pointers + (index * stride * width).astype(np.uint64)
            if axis in checked:
                inside = inside & (index >= 0) & (index < limit)
        return Handle(pointers, base.dtype.scalar), inside

    def create_tensor_pointer_load(
        self, ptr: Any, check: Any, padding: Any, cache: Any, eviction: Any, is_volatile: Any
    ) -> Any:
        pointers, inside = self._tile(
            ptr.base, ptr.offsets, ptr.strides, ptr.shape, ptr.block_shape, check
        )
        return self._padded_load(pointers, inside, padding)

    def create_tensor_pointer_store(
        self, ptr: Any, value: Any, check: Any, cache: Any, eviction: Any
    ) -> None:
        pointers, inside = self._tile(
            ptr.base, ptr.offsets, ptr.strides, ptr.shape, ptr.block_shape, check
        )
        self.memory.store(pointers.data, value.data, inside)

    def create_advance(self, ptr: Any, offsets: Sequence[Any]) -> Any:
        moved = [
            Handle(old.data + step.data, old.dtype)
            for old, step in zip(ptr.offsets, offsets, strict=True)
        ]
        return interpreter.BlockPointerHandle(
            ptr.base, ptr.shape, ptr.strides, moved, ptr.block_shape, ptr.order
        )

    def create_make_tensor_descriptor(
        self,
        base: Any,
        shape: Any,
        strides: Any,
        tensor_shape: Any,
        is_signed: bool,
        padding: Any = "zero",
    ) -> Any:
        return interpreter.TensorDescHandle(base, shape, strides, tensor_shape, padding)

    def create_descriptor_load(self, desc: Any, indices: Any, *hints: Any) -> Any:
        # Of caches: two until Triton 3.8, one policy since.
        pointers, inside = self._tile(
            desc.base,
            indices,
            desc.strides,
            desc.shape,
            desc.block_shape,
            range(len(desc.block_shape)),
        )
        return self._padded_load(pointers, inside, desc.padding)

    def create_descriptor_store(self, desc: Any, value: Any, indices: Any) -> None:
        pointers, inside = self._tile(
            desc.base,
            indices,
            desc.strides,
            desc.shape,
            desc.block_shape,
            range(len(desc.block_shape)),
        )
        self.memory.store(pointers.data, value.data, inside)

    def _padded_load(self, pointers: Any, inside: Array, padding: Any) -> Any:
        element = pointers.get_element_ty()
        dtype = storage_dtype(element)
        fill = np.zeros((1,) * pointers.data.ndim, dtype=np.float32)
        if padding == ir.PADDING_OPTION.PAD_NAN:
            fill = fill + np.float32(np.nan)
        other = encode(fill, element) if element.is_floating() else fill.astype(dtype)
        return Handle(self.memory.load(pointers.data, inside, other, dtype), element)
