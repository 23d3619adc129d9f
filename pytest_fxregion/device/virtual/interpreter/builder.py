"""Triton's interpreter for many programs at once: every value has a leading axis of programs.

Triton's own interpreter runs one program of the grid after the other, and a Python call per
operation of each.  Here the operations of a batch of programs are done together: a block of shape
``(B, C)`` is an array of shape ``(programs, B, C)``, a scalar one of shape ``(programs,)``; an
axis of length 1 stands for "the same in every program".  Where programs branch differently,
:class:`Diverged` ends the batch and :mod:`.grid` runs it again in parts.

Beyond batching it puts right what Triton's interpreter gets wrong without saying so: arithmetic
and comparisons of bfloat16 (it works on the bits as integers), rounding to bfloat16 (it
truncates), casts to 8-bit floats, NaN in minimum, maximum and unordered comparisons, fused
multiply-add, and conversions of NaN and large values to integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from pytest_fxregion.device.virtual.interpreter import libdevice
from pytest_fxregion.device.virtual.interpreter.inline_assembly import run_assembly
from pytest_fxregion.device.virtual.interpreter.memory import Memory
from pytest_fxregion.device.virtual.interpreter.number_formats import (
    as_tensor,
    decode,
    encode,
    is_encoded,
    saturated,
    storage_dtype,
)
from pytest_fxregion.device.virtual.interpreter.tiles import Tiles

Array = npt.NDArray[Any]
Handle = interpreter.TensorHandle

ELEMENTS_AT_ONCE = 1 << 20
"""A batch that needs larger arrays is split; about what still fits a processor's cache."""


class Diverged(Exception):
    """The programs of a batch do not agree on a value that Python has to know."""

    def __init__(self, values: Array) -> None:
        super().__init__("programs of one batch branch differently")
        self.values = values


class TooLarge(Exception):
    """The batch has so many programs that its arrays leave the cache."""


class GridBuilder(Tiles):
    """Triton's interpreter builder over a batch of programs."""

    programs: Array  # (programs, 3): the grid coordinates of each
    memory: Memory
    supplied: set[str]  # libdevice functions and PTX instructions that the kernel used
    branches: int  # how often a program asked whether a value is true
    grid_dim: tuple[int, int, int]

    def start(self, programs: Array, memory: Memory) -> None:
        """Begin a batch of the programs with these grid coordinates, shape ``(programs, 3)``."""
        self.programs = programs
        self.memory = memory
        self.branches = 0

    # ---- values and shapes --------------------------------------------------------------------

    def _block(self, data: Array, shape: Sequence[int]) -> Array:
        """Bring data to ``(programs or 1, *shape)`` without copying."""
        if data.ndim != len(shape) + 1:
            data = data.reshape(data.shape[0], *(1,) * len(shape))
        full = (data.shape[0], *shape)
        if data.shape[0] > 1 and np.prod(full, dtype=np.int64) > ELEMENTS_AT_ONCE:
            raise TooLarge
        return np.broadcast_to(data, full)

    def create_get_program_id(self, axis: int) -> Any:
        ids = self.programs[:, axis]
        return Handle(ids[:1] if (ids == ids[0]).all() else ids, tl.int32)

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Any:
        return Handle(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        data = arg.data.reshape(arg.data.shape[0], -1)[:, 0]
        return Handle(self._block(data, ret_ty.shape), arg.dtype.scalar)

    def create_unsplat(self, arg: Any) -> Any:
        return Handle(arg.data.reshape(arg.data.shape[0], -1)[:, 0], arg.dtype.scalar)

    def create_broadcast(self, arg: Any, shape: Sequence[int]) -> Any:
        return Handle(self._block(arg.data, shape), arg.dtype.scalar)

    def create_expand_dims(self, arg: Any, axis: int) -> Any:
        return Handle(np.expand_dims(arg.data, axis + 1), arg.dtype.scalar)

    def create_reshape(self, arg: Any, shape: Sequence[int], allow_reorder: bool = False) -> Any:
        return Handle(arg.data.reshape(arg.data.shape[0], *shape), arg.dtype.scalar)

    def create_trans(self, arg: Any, perm: Sequence[int]) -> Any:
        order = (0, *(axis + 1 for axis in perm))
        return Handle(np.transpose(arg.data, order), arg.dtype.scalar)

    def _together(self, *handles: Any) -> list[Array]:
        programs = max(handle.data.shape[0] for handle in handles)
        return [np.broadcast_to(h.data, (programs, *h.data.shape[1:])) for h in handles]

    def create_cat(self, lhs: Any, rhs: Any) -> Any:
        return Handle(np.concatenate(self._together(lhs, rhs), axis=1), lhs.dtype.scalar)

    def create_join(self, lhs: Any, rhs: Any) -> Any:
        return Handle(np.stack(self._together(lhs, rhs), axis=-1), lhs.dtype.scalar)

    def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
        source, index = self._together(src, indices)
        return Handle(np.take_along_axis(source, index, axis=axis + 1), src.dtype.scalar)

    def create_histogram(self, data: Any, bins: int, mask: Any) -> Any:
        values = data.data
        wanted = np.ones_like(values, dtype=np.bool_) if mask is None else mask.data
        values, wanted = np.broadcast_arrays(values, wanted)
        counts = [
            np.bincount(row[keep].astype(np.int64), minlength=bins)[:bins]
            for row, keep in zip(values, wanted, strict=True)
        ]
        return Handle(np.stack(counts).astype(np.int32), tl.int32)

    # ---- arithmetic ---------------------------------------------------------------------------

    def binary_op(self, lhs: Any, rhs: Any, op: Callable[[Array, Array], Array]) -> Any:
        dtype = lhs.dtype.scalar
        out = op(decode(lhs.data, lhs.dtype), decode(rhs.data, rhs.dtype))
        if out.dtype == np.bool_:
            return Handle(out, tl.int1)
        return Handle(self._kept(out, dtype), dtype)

    def unary_op(self, arg: Any, op: Callable[[Array], Array]) -> Any:
        dtype = arg.dtype.scalar
        return Handle(self._kept(op(decode(arg.data, dtype)), dtype), dtype)

    def _kept(self, values: Array, dtype: Any) -> Array:
        if is_encoded(dtype):
            return encode(values, dtype)
        return values.astype(storage_dtype(dtype), copy=False)

    def create_select(self, cond: Any, lhs: Any, rhs: Any) -> Any:
        dtype = rhs.dtype.scalar
        return Handle(np.where(cond.data, lhs.data, rhs.data), dtype)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        # float64 holds the product of two float32 exactly, so one rounding is left.
        values = [decode(h.data, h.dtype) for h in (x, y, z)]
        if values[2].dtype != np.float64:
            values = [v.astype(np.float64) for v in values]
        out = values[0] * values[1] + values[2]
        target = np.float32 if is_encoded(z.dtype) else values[2].dtype
        return Handle(self._kept(out.astype(target), z.dtype), z.dtype.scalar)

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        values, low, high = (decode(h.data, h.dtype) for h in (arg, lo, hi))
        # fmin and fmax drop a NaN, as min.f32 and max.f32 do.
        out = np.fmin(np.fmax(values, low), high)
        if propagate_nans == ir.PROPAGATE_NAN.ALL:
            out = np.where(np.isnan(values), values, out)
        return Handle(self._kept(out, arg.dtype), arg.dtype.scalar)

    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_erf(self, arg: Any) -> Any:
        return self.unary_op(arg, _torch_unary("erf"))

    def create_rsqrt(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: np.reciprocal(np.sqrt(x)))

    def create_fabs(self, arg: Any) -> Any:
        return self.unary_op(arg, np.abs)

    def create_ashr(self, lhs: Any, rhs: Any) -> Any:
        signed = np.dtype(f"int{lhs.data.dtype.itemsize * 8}")
        out = np.right_shift(lhs.data.astype(signed), rhs.data.astype(signed))
        return Handle(self._kept(out, lhs.dtype), lhs.dtype.scalar)

    def create_lshr(self, lhs: Any, rhs: Any) -> Any:
        unsigned = np.dtype(f"uint{lhs.data.dtype.itemsize * 8}")
        out = np.right_shift(lhs.data.astype(unsigned), rhs.data.astype(unsigned))
        return Handle(self._kept(out, lhs.dtype), lhs.dtype.scalar)

    def create_idiv(self, lhs: Any, rhs: Any) -> Any:
        # Toward zero, and 0 where the hardware's result is not defined.
        divisor = np.where(rhs.data == 0, rhs.data.dtype.type(1), rhs.data)
        quotient = (lhs.data - np.fmod(lhs.data, divisor)) // divisor
        return Handle(self._kept(quotient, lhs.dtype), lhs.dtype.scalar)

    def create_srem(self, lhs: Any, rhs: Any) -> Any:
        divisor = np.where(rhs.data == 0, rhs.data.dtype.type(1), rhs.data)
        return Handle(self._kept(np.fmod(lhs.data, divisor), lhs.dtype), lhs.dtype.scalar)

    create_urem = create_srem

    def create_umulhi(self, lhs: Any, rhs: Any) -> Any:
        bits = lhs.data.dtype.itemsize * 8
        unsigned = np.dtype(f"uint{bits}")
        a, b = lhs.data.astype(unsigned), rhs.data.astype(unsigned)
        if bits < 64:
            wide = np.dtype(f"uint{bits * 2}")
            high = (a.astype(wide) * b.astype(wide)) >> wide.type(bits)
        else:
            # Four products of 32-bit halves, the carries of the middle ones added up.
            half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
            a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
            middle = a1 * b0 + ((a0 * b0) >> half)
            carry = (middle & low) + a0 * b1
            high = a1 * b1 + (middle >> half) + (carry >> half)
        return Handle(self._kept(high, lhs.dtype), lhs.dtype.scalar)

    def create_dot(
        self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any
    ) -> Any:
        target = storage_dtype(d.dtype)
        # 16- and 8-bit floats are widened first: products of them are exact in float32.
        work = np.dtype(np.float32) if target == np.float16 else target
        left = decode(a.data, a.dtype).astype(work, copy=False)
        right = decode(b.data, b.dtype).astype(work, copy=False)
        out = np.matmul(left, right) + decode(d.data, d.dtype)
        return Handle(self._kept(out, d.dtype), d.dtype.scalar)

    # ---- casts --------------------------------------------------------------------------------

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return Handle(self._cast(src, dst_type.scalar), dst_type.scalar)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        toward_zero = rounding_mode == ir.ROUNDING_MODE.RTZ
        values = decode(src.data, src.dtype)
        return Handle(encode(values, dst_type, toward_zero=toward_zero), dst_type.scalar)

    def _cast(self, src: Any, target: Any) -> Array:
        values = decode(src.data, src.dtype)
        if target.is_floating():
            return encode(values, target)
        dtype = storage_dtype(target)
        if np.issubdtype(values.dtype, np.floating) and np.issubdtype(dtype, np.integer):
            return saturated(values, dtype)
        return values.astype(dtype)

    # ---- memory -------------------------------------------------------------------------------

    # What a cache should do with the value comes last: two arguments up to Triton 3.8, one since.
    def create_load(self, ptr: Any, *cache_hints: Any) -> Any:
        everywhere = Handle(np.ones((1,) * ptr.data.ndim, dtype=np.bool_), tl.int1)
        return self.create_masked_load(ptr, everywhere, None)

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *cache_hints: Any) -> Any:
        element = ptrs.get_element_ty()
        dtype = storage_dtype(element)
        default = np.zeros((1,) * ptrs.data.ndim, dtype=dtype) if other is None else other.data
        loaded = self.memory.load(ptrs.data, mask.data, default.astype(dtype), dtype)
        return Handle(loaded, element)

    def create_store(self, ptr: Any, val: Any, *cache_hints: Any) -> None:
        everywhere = Handle(np.ones((1,) * ptr.data.ndim, dtype=np.bool_), tl.int1)
        self.create_masked_store(ptr, val, everywhere)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *cache_hints: Any) -> None:
        self.memory.store(ptrs.data, value.data, mask.data)

    def _each_program(self, data: Array) -> Array:
        return np.broadcast_to(data, (len(self.programs), *data.shape[1:]))

    def create_atomic_rmw(
        self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any
    ) -> Any:
        # Uniform arguments or not: every program does it once.
        pointers = self._each_program(ptr.data)
        if val.dtype.scalar == tl.bfloat16:
            return self._atomic_bfloat16(operation, pointers, val, mask)
        old = self.memory.atomic(
            self.ir_rmw_op_to_interpreter_rmw_op[operation],
            pointers,
            val.data,
            mask.data,
            self.ir_sem_to_interpreter_sem[sem],
        )
        return Handle(old, val.dtype.scalar)

    def _atomic_bfloat16(self, operation: Any, pointers: Array, val: Any, mask: Any) -> Any:
        combine = {
            ir.ATOMIC_OP.FADD: np.add,
            ir.ATOMIC_OP.MAX: np.fmax,
            ir.ATOMIC_OP.MIN: np.fmin,
        }[operation]
        pointers, bits, wanted = np.broadcast_arrays(pointers, val.data, mask.data)
        old = np.zeros(pointers.shape, dtype=np.uint16)
        for place in zip(*np.nonzero(wanted), strict=True):
            at = tuple(slice(i, i + 1) for i in place)
            true = np.ones_like(wanted[at])
            now = self.memory.load(pointers[at], true, old[at], np.dtype(np.uint16))
            old[at] = now
            new = combine(decode(now, tl.bfloat16), decode(bits[at], tl.bfloat16))
            self.memory.store(pointers[at], encode(new, tl.bfloat16), true)
        return Handle(old, tl.bfloat16)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        old = self.memory.compare_and_swap(
            self._each_program(ptr.data),
            cmp.data,
            val.data,
            self.ir_sem_to_interpreter_sem[sem],
        )
        return Handle(old, cmp.dtype.scalar)

    # ---- what the hardware has instructions for -----------------------------------------------

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: Any, result: Any, is_pure: bool
    ) -> Any:
        arrays = list(np.broadcast_arrays(*(h.data for h in arguments)))
        dtype = result.scalar
        self.supplied.add(symbol)
        return Handle(libdevice.call(symbol, arrays, storage_dtype(dtype)), dtype)

    def create_inline_asm(
        self, assembly: str, constraints: str, values: Any, types: Any, is_pure: bool, pack: int
    ) -> Any:
        arrays = list(np.broadcast_arrays(*(h.data for h in values)))
        dtype = types[0].scalar
        self.supplied.add(assembly.split()[0])
        out = run_assembly(assembly, arrays, storage_dtype(dtype))
        return _Call([Handle(out, dtype)])

    def create_print(self, prefix: str, hexadecimal: bool, values: Any, is_signed: Any) -> None:
        for row, program in enumerate(self.programs.tolist()):
            for value in values:
                data = value.data[min(row, value.data.shape[0] - 1)]
                shown = np.vectorize(hex)(data) if hexadecimal else data
                print(f"({', '.join(map(str, program))}) {prefix} {shown}")


def agreed(data: Array) -> Any:
    """Return the one value that all programs have; raises :class:`Diverged` if they differ."""
    values = data.reshape(data.shape[0], -1)[:, 0]
    if len(values) > 1 and not (values == values[0]).all():
        raise Diverged(values)
    return values[0]


def _torch_unary(name: str) -> Callable[[Array], Array]:
    import torch

    function = getattr(torch, name)

    def apply(values: Array) -> Array:
        result: Array = function(as_tensor(values)).numpy()
        return result

    return apply


class _Call:
    """The results of an instruction, as Triton's own builder hands them out."""

    def __init__(self, results: list[Any]) -> None:
        self._results = results

    def get_result(self, index: int) -> Any:
        return self._results[index]


def _comparison(op: Callable[[Array, Array], Array], unordered: bool) -> Callable[..., Any]:
    def compare(self: GridBuilder, lhs: Any, rhs: Any) -> Any:
        a, b = decode(lhs.data, lhs.dtype), decode(rhs.data, rhs.dtype)
        nan = np.isnan(a) | np.isnan(b)
        out = op(a, b) | nan if unordered else op(a, b) & ~nan
        return Handle(out, tl.int1)

    return compare


for _suffix, _op in {
    "LT": np.less,
    "GT": np.greater,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}.items():
    setattr(GridBuilder, f"create_fcmpO{_suffix}", _comparison(_op, unordered=False))
    setattr(GridBuilder, f"create_fcmpU{_suffix}", _comparison(_op, unordered=True))
