"""Number formats that numpy lacks: bfloat16 and the 8-bit floats, as bits in unsigned integers.

:func:`decode` gives the values as float32 (exact for all of them), :func:`encode` rounds back as
the hardware's conversions do: to nearest even, and for the 8-bit formats saturating
(``cvt.rn.satfinite``, PTX ISA 8.x), where a plain torch cast of an overflow gives NaN or inf.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton.language as tl

Array = npt.NDArray[Any]

_FLOAT8: dict[Any, torch.dtype] = {
    tl.float8e5: torch.float8_e5m2,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5b16: torch.float8_e5m2fnuz,
    tl.float8e4b8: torch.float8_e4m3fnuz,
}

_NUMPY: dict[Any, npt.DTypeLike] = {
    tl.int1: np.bool_,
    tl.int8: np.int8,
    tl.uint8: np.uint8,
    tl.int16: np.int16,
    tl.uint16: np.uint16,
    tl.int32: np.int32,
    tl.uint32: np.uint32,
    tl.int64: np.int64,
    tl.uint64: np.uint64,
    tl.float16: np.float16,
    tl.float32: np.float32,
    tl.float64: np.float64,
    tl.bfloat16: np.uint16,
    tl.float8e5: np.uint8,
    tl.float8e4nv: np.uint8,
    tl.float8e5b16: np.uint8,
    tl.float8e4b8: np.uint8,
    tl.float8e4b15: np.uint8,
}


def storage_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the numpy dtype that holds one element of a Triton scalar or pointer type."""
    scalar = dtype.scalar
    if scalar.is_ptr():
        return np.dtype(np.uint64)
    return np.dtype(_NUMPY[scalar])


def is_encoded(dtype: Any) -> bool:
    """Whether elements are kept as bits that numpy cannot calculate with."""
    scalar = dtype.scalar
    return bool(scalar == tl.bfloat16 or scalar.is_fp8())


def decode(data: Array, dtype: Any) -> Array:
    """Return the values as something numpy calculates with: float32 for encoded formats."""
    scalar = dtype.scalar
    if scalar == tl.bfloat16:
        return (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if scalar.is_fp8():
        values: Array = _float8_values(scalar)[data]
        return values
    return data


def encode(values: Array, dtype: Any, *, toward_zero: bool = False) -> Array:
    """Round ``values`` to a Triton float type and return them as it is kept."""
    scalar = dtype.scalar
    if scalar == tl.bfloat16:
        return _to_bfloat16(values.astype(np.float32, copy=False), toward_zero)
    if scalar.is_fp8():
        return _to_float8(values.astype(np.float32, copy=False), scalar)
    target = storage_dtype(scalar)
    rounded = values.astype(target, copy=False)
    if toward_zero and target.itemsize < values.dtype.itemsize:
        outward = np.abs(rounded.astype(values.dtype)) > np.abs(values)
        inward = np.nextafter(rounded, np.zeros((), target))
        rounded = np.where(outward, inward, rounded)
    return rounded


def _to_bfloat16(values: Array, toward_zero: bool) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32)
    if toward_zero:
        rounded = bits >> np.uint32(16)
    else:
        # To nearest, ties to even: half of the last place less one, plus the last bit that stays.
        last = (bits >> np.uint32(16)) & np.uint32(1)
        rounded = (bits + np.uint32(0x7FFF) + last) >> np.uint32(16)
    # Rounding may carry a NaN's mantissa away; torch and the hardware give a quiet NaN.
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


@functools.cache
def _float8_values(scalar: Any) -> Array:
    if scalar == tl.float8e4b15:
        return _float8e4b15_values()
    bits = torch.arange(256, dtype=torch.uint8)
    values: Array = bits.view(_FLOAT8[scalar]).to(torch.float32).numpy()
    return values


def _float8e4b15_values() -> Array:
    """Triton's own format: 4 exponent bits with bias 15, no inf and no NaN."""
    bits = np.arange(256, dtype=np.int32)
    exponent, mantissa = (bits >> 3) & 15, bits & 7
    normal = np.ldexp(1 + mantissa / 8, exponent - 15)
    subnormal = np.ldexp(mantissa / 8, -14)
    magnitude = np.where(exponent == 0, subnormal, normal)
    values: Array = np.where(bits >> 7, -magnitude, magnitude).astype(np.float32)
    return values


def _to_float8(values: Array, scalar: Any) -> Array:
    if scalar == tl.float8e4b15:
        table = _float8e4b15_values()[:128]
        nearest = np.clip(np.searchsorted(table, np.abs(values)), 1, 127)
        lower = np.abs(values) - table[nearest - 1]
        upper = table[nearest] - np.abs(values)
        index = np.where(
            (lower < upper) | ((lower == upper) & (nearest % 2 == 1)), nearest - 1, nearest
        )
        bits: Array = (index | (np.signbit(values) << 7)).astype(np.uint8)
        return bits
    target = _FLOAT8[scalar]
    largest = torch.finfo(target).max
    tensor = as_tensor(values).clamp(-largest, largest)
    encoded: Array = tensor.to(target).view(torch.uint8).numpy()
    return encoded


def as_tensor(values: Array, dtype: type | None = None) -> torch.Tensor:
    """Return the array as a tensor; a copy where torch cannot share it, as of a broadcast value."""
    return torch.from_numpy(np.require(values, dtype, ["C", "W"]))


def saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to integers as ``cvt.rzi`` does: NaN gives 0, what is too large the limit."""
    limits = np.iinfo(dtype)
    wide = values.astype(np.float64, copy=False)
    inside: Array = np.where(
        np.isnan(wide), 0.0, np.clip(wide, float(limits.min), float(limits.max))
    )
    with np.errstate(invalid="ignore"):  # the limit itself, put right below
        out = inside.astype(dtype)
    # float64 cannot hold the largest 64-bit integers; what rounds up to 2^63 is past the limit.
    limited: Array = np.where(inside >= float(limits.max), dtype.type(limits.max), out)
    return limited
