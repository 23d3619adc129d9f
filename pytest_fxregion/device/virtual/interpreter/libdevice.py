"""NVIDIA's libdevice, which Triton's interpreter lacks: its functions from torch and numpy.

In: a libdevice symbol (``__nv_expf``), numpy arrays and the result's numpy type.  Out: an array.
What differs from a GPU is the last bits: libdevice promises 1 to 2 ULP for most functions (CUDA C++
Programming Guide, "Mathematical Functions"), as do torch's CPU kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pytest_fxregion.device.virtual.interpreter.number_formats import as_tensor, saturated
from pytest_fxregion.errors import DeviceError

Array = npt.NDArray[Any]
Function = Callable[..., Any]


def call(symbol: str, arguments: list[Array], result: np.dtype[Any]) -> Array:
    """Return the value of a libdevice function for every element.

    Raises :class:`DeviceError` for a symbol that is not supplied.
    """
    function = find(symbol)
    if function is None:
        raise DeviceError(
            f"libdevice's {symbol} is not supplied on the virtual CUDA device; "
            "use a GPU (--fxregion-device=cuda)"
        )
    with np.errstate(all="ignore"):
        out = function(*arguments)
        if isinstance(out, torch.Tensor):
            out = out.numpy()
        array: Array = np.asarray(out).astype(result, copy=False)
    return array


def find(symbol: str) -> Function | None:
    """Return the function that stands for a symbol, or ``None``."""
    name = symbol.removeprefix("__nv_")
    for pattern, make in _FAMILIES:
        match = re.fullmatch(pattern, name)
        if match is not None:
            return make(*match.groups())
    # The float32 function is the name with an f: sin and sinf, fma_rn and fmaf_rn.
    for candidate in (name, name.removesuffix("f"), name.replace("f_r", "_r")):
        if candidate in _FUNCTIONS:
            return _FUNCTIONS[candidate]
    return None


# ---- functions that are not one torch operator --------------------------------------------------


def _on_torch(function: Callable[..., torch.Tensor]) -> Function:
    def apply(*arrays: Array) -> torch.Tensor:
        return function(*map(as_tensor, arrays))

    return apply


def _wide(function: Callable[..., torch.Tensor]) -> Function:
    """Compute in float64 and round once: for formulas that would lose bits in float32."""

    def apply(*arrays: Array) -> torch.Tensor:
        return function(*(as_tensor(a, np.float64) for a in arrays))

    return apply


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(np.ones_like(x), x), 0)


def _gamma(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.lgamma(x).exp()
    # Negative between -1 and 0, -3 and -2, ...; a pole at each whole number below 1.
    out = torch.where((x < 0) & (x.floor() % 2 != 0), -magnitude, magnitude)
    out = torch.where(x == 0, torch.copysign(torch.full_like(x, torch.inf), x), out)
    return torch.where((x < 0) & (x == x.floor()), torch.nan, out)


def _remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """IEEE remainder: the quotient rounded to nearest even, the sign of a zero that of ``a``."""
    rest = torch.fmod(a, b)
    size = b.abs()
    over = rest.abs() * 2 > size
    odd = torch.fmod(torch.trunc(a / b).abs(), 2) == 1
    over |= (rest.abs() * 2 == size) & odd
    out = torch.where(over, rest - torch.copysign(size, rest), rest)
    return torch.where(
        torch.isinf(b) & torch.isfinite(a), a, torch.copysign(out, torch.where(out == 0, a, out))
    )


def _ilogb(x: Array) -> Array:
    exponent = np.frexp(np.where(np.isfinite(x), x, 1))[1].astype(np.int64) - 1
    smallest, largest = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    exponent = np.where((x == 0) | np.isnan(x), smallest, exponent)
    return np.where(np.isinf(x), largest, exponent)


def _logb(x: Array) -> Array:
    exponent = np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x)))


def _ldexp(x: Array, exponent: Array) -> Array:
    return np.ldexp(x, np.asarray(exponent).astype(np.int32))


def _powi(x: Array, exponent: Array) -> Array:
    return np.power(x.astype(np.float64), exponent)


def _hypot(*values: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(values[0])
    for value in values:
        total = torch.hypot(total, value)
    infinite = torch.stack([torch.isinf(v) for v in values]).any(0)
    return torch.where(infinite, torch.inf, total)


def _recurrence(order_zero: Function, order_one: Function) -> Function:
    """Bessel functions of whole order, upwards from the first two (A&S 9.1.27), in float64.

    Stable for the second kind only.
    """

    def apply(order: Array, x: Array) -> Array:
        wide = as_tensor(x, np.float64)
        before, now = order_zero(wide).numpy(), order_one(wide).numpy()
        out: Array = np.where(order == 0, before, now)
        for n in range(1, int(np.max(order, initial=1))):
            before, now = now, 2 * n / wide.numpy() * now - before
            out = np.where(order == n + 1, now, out)
        return out

    return apply


def _bits(width: int) -> Function:
    """Counting over the bits of integers, most significant first."""

    def bits(x: Array) -> Array:
        unsigned = x.astype(np.dtype(f"uint{width}"))[..., None]
        places = np.arange(width - 1, -1, -1, dtype=unsigned.dtype)
        out: Array = (unsigned >> places) & unsigned.dtype.type(1)
        return out

    return bits


def _count_leading_zeros(width: int) -> Function:
    return lambda x: np.where((b := _bits(width)(x)).any(-1), b.argmax(-1), width)


def _population(width: int) -> Function:
    return lambda x: _bits(width)(x).sum(-1)


def _find_first_set(width: int) -> Function:
    return lambda x: np.where((b := _bits(width)(x)[..., ::-1]).any(-1), b.argmax(-1) + 1, 0)


def _reverse(width: int) -> Function:
    weights = 1 << np.arange(width, dtype=np.uint64)
    return lambda x: (_bits(width)(x).astype(np.uint64) * weights).sum(-1, dtype=np.uint64)


def _byte_perm(x: Array, y: Array, selector: Array) -> Array:
    both = x.astype(np.uint32).astype(np.uint64) | (
        y.astype(np.uint32).astype(np.uint64) << np.uint64(32)
    )
    out = np.zeros(np.broadcast(x, y, selector).shape, dtype=np.uint64)
    for i in range(4):
        place = (selector.astype(np.uint64) >> np.uint64(4 * i)) & np.uint64(7)
        out |= ((both >> (place * np.uint64(8))) & np.uint64(255)) << np.uint64(8 * i)
    return out.astype(np.uint32)


_ROUND: dict[str, Function] = {"n": np.rint, "d": np.floor, "u": np.ceil, "z": np.trunc}
_INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_FLOATS = {"float": np.float32, "double": np.float64}
_ARITHMETIC: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "rcp": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x.astype(np.float64)),
}  # fmt: skip


def _to_integer(kind: str, mode: str) -> Function:
    return lambda x: saturated(_ROUND[mode](x), np.dtype(_INTEGERS[kind]))


def _view_as(kind: str) -> Function:
    target = {"int": np.int32, "uint": np.uint32, "longlong": np.int64, **_FLOATS}[kind]
    return lambda x: np.ascontiguousarray(x).view(target)


_FAMILIES: list[tuple[str, Callable[..., Function]]] = [
    (r"(?:float|double)2(u?int|u?ll)_r([ndzu])", _to_integer),
    (r"(?:u?int|u?ll)2(float|double)_rn", lambda kind: lambda x: x.astype(_FLOATS[kind])),
    (r"double2float_rn", lambda: lambda x: x.astype(np.float32)),
    (r"[fd](add|sub|mul|div|rcp|sqrt|rsqrt)_rn", lambda name: _ARITHMETIC[name]),
    (r"(?:u?int|float|longlong|double)_as_(u?int|longlong|float|double)", _view_as),
]
"""Symbols by pattern, each with what makes its function from the parts of the name."""

_FUNCTIONS: dict[str, Function] = {
    "abs": np.abs, "llabs": np.abs, "fabs": np.abs,
    "mul24": lambda a, b: (a << 8 >> 8) * (b << 8 >> 8),
    "acos": _on_torch(torch.acos), "acosh": _on_torch(torch.acosh), "asin": _on_torch(torch.asin),
    "asinh": _on_torch(torch.asinh), "atan": _on_torch(torch.atan),
    "atan2": _on_torch(torch.atan2), "atanh": _on_torch(torch.atanh), "cbrt": np.cbrt,
    "ceil": np.ceil, "copysign": np.copysign, "cos": _on_torch(torch.cos),
    "cosh": _on_torch(torch.cosh), "cospi": _wide(lambda x: torch.cos(torch.fmod(x, 2) * torch.pi)),
    "cyl_bessel_i0": _wide(torch.special.i0), "cyl_bessel_i1": _wide(torch.special.i1),
    "erf": _on_torch(torch.erf), "erfc": _on_torch(torch.erfc),
    "erfcinv": _wide(lambda x: -torch.special.ndtri(x / 2) * 0.5**0.5),
    "erfcx": _on_torch(torch.special.erfcx), "erfinv": _on_torch(torch.erfinv),
    "exp": _on_torch(torch.exp), "exp10": _wide(lambda x: torch.pow(10.0, x)),
    "exp2": _on_torch(torch.exp2), "expm1": _on_torch(torch.expm1),
    "fast_cos": _on_torch(torch.cos), "fast_exp": _on_torch(torch.exp),
    "fast_exp10": _wide(lambda x: torch.pow(10.0, x)), "fast_fdividef": np.divide,
    "fast_log10": _on_torch(torch.log10), "fast_log2": _on_torch(torch.log2),
    "fast_log": _on_torch(torch.log), "fast_pow": _on_torch(torch.pow),
    "fast_sin": _on_torch(torch.sin), "fast_tan": _on_torch(torch.tan),
    "fdim": lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a > b, a - b, 0)),
    "finite": np.isfinite, "isfinited": np.isfinite, "isinfd": np.isinf, "isinff": np.isinf,
    "isnand": np.isnan, "isnanf": np.isnan, "signbitd": np.signbit, "signbitf": np.signbit,
    "floor": np.floor, "fma": _wide(lambda a, b, c: a * b + c),
    "fma_rn": _wide(lambda a, b, c: a * b + c), "fmod": np.fmod,
    "hypot": _wide(_hypot), "norm3d": _wide(_hypot), "norm4d": _wide(_hypot),
    "rhypot": _wide(lambda *v: 1 / _hypot(*v)), "rnorm3d": _wide(lambda *v: 1 / _hypot(*v)),
    "rnorm4d": _wide(lambda *v: 1 / _hypot(*v)), "ilogb": _ilogb,
    "j0": _wide(torch.special.bessel_j0), "j1": _wide(torch.special.bessel_j1),
    "ldexp": _ldexp, "scalbn": _ldexp, "lgamma": _on_torch(torch.lgamma),
    "llrint": lambda x: saturated(np.rint(x), np.dtype(np.int64)),
    "llround": lambda x: saturated(_round_half_away(x), np.dtype(np.int64)),
    "log": _on_torch(torch.log), "log10": _on_torch(torch.log10), "log1p": _on_torch(torch.log1p),
    "log2": _on_torch(torch.log2), "logb": _logb, "nearbyint": np.rint, "rint": np.rint,
    "nextafter": np.nextafter, "normcdf": _wide(lambda x: torch.erfc(-x * 0.5**0.5) / 2),
    "normcdfinv": _wide(torch.special.ndtri), "pow": _on_torch(torch.pow), "powi": _powi,
    "rcbrt": lambda x: 1 / np.cbrt(x), "remainder": _wide(_remainder), "round": _round_half_away,
    "rsqrt": _on_torch(torch.rsqrt), "saturate": lambda x: np.fmin(np.fmax(x, 0), 1),
    "sin": _on_torch(torch.sin), "sinh": _on_torch(torch.sinh),
    "sinpi": _wide(lambda x: torch.sin(torch.fmod(x, 2) * torch.pi)),
    "sqrt": np.sqrt, "tan": _on_torch(torch.tan), "tanh": _on_torch(torch.tanh),
    "tgamma": _wide(_gamma), "trunc": np.trunc, "y0": _wide(torch.special.bessel_y0),
    "y1": _wide(torch.special.bessel_y1),
    "yn": _recurrence(torch.special.bessel_y0, torch.special.bessel_y1),
    "clz": _count_leading_zeros(32), "clzll": _count_leading_zeros(64),
    "popc": _population(32), "popcll": _population(64), "ffs": _find_first_set(32),
    "ffsll": _find_first_set(64), "brev": _reverse(32), "brevll": _reverse(64),
    "byte_perm": _byte_perm,
    "mulhi": lambda a, b: (a.astype(np.int64) * b.astype(np.int64)) >> 32,
    "umulhi": lambda a, b: (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32),
    "sad": lambda a, b, c: np.abs(a.astype(np.int64) - b) + c,
    "usad": lambda a, b, c: np.abs(a.astype(np.int64) - b.astype(np.int64)) + c,
    "hadd": lambda a, b: (a.astype(np.int64) + b) >> 1,
    "rhadd": lambda a, b: (a.astype(np.int64) + b + 1) >> 1,
    "uhadd": lambda a, b: (a.astype(np.uint64) + b) >> np.uint64(1),
    "urhadd": lambda a, b: (a.astype(np.uint64) + b + np.uint64(1)) >> np.uint64(1),
}  # fmt: skip
"""Name without ``__nv_`` and the ``f`` of float32, and what it computes."""
