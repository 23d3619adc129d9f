"""NVIDIA's libdevice functions, which are declarations without a body in Triton's interpreter.

Each is the torch operator of the same meaning on the CPU; what differs from a GPU is the last bits
(libdevice promises 1 to 2 ULP for most, as torch's CPU kernels do).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

Unary = Callable[[torch.Tensor], torch.Tensor]


def _round_half_away(x: torch.Tensor) -> torch.Tensor:
    whole = x.trunc()
    return whole + torch.where((x - whole).abs() >= 0.5, torch.copysign(torch.ones_like(x), x), 0)


def _gamma(x: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    magnitude = torch.lgamma(wide).exp()
    # Negative between -1 and 0, -3 and -2, ...; a pole at each whole number below 1.
    negative = (wide < 0) & (wide.floor() % 2 != 0)
    out = torch.where(negative, -magnitude, magnitude)
    out = torch.where(wide == 0, torch.copysign(torch.full_like(wide, torch.inf), wide), out)
    pole = (wide < 0) & (wide == wide.floor())
    return torch.where(pole, torch.nan, out).to(x.dtype)


def _sinpi(x: torch.Tensor) -> torch.Tensor:
    # Exact reduction first: x modulo 2 has no error.
    return torch.sin(torch.fmod(x.double(), 2.0) * torch.pi).to(x.dtype)


def _cospi(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.fmod(x.double(), 2.0) * torch.pi).to(x.dtype)


def _cbrt(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.cbrt(x.numpy()))


def _fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a.double() * b.double() + c.double()).to(a.dtype)


def _fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.fmod(a, b)


def _remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """IEEE remainder: the quotient rounded to nearest even."""
    wide = a.double(), b.double()
    out = wide[0] - wide[1] * torch.round(wide[0] / wide[1])
    return torch.where(torch.isinf(wide[1]) & torch.isfinite(wide[0]), wide[0], out).to(a.dtype)


def _ilogb(x: torch.Tensor) -> torch.Tensor:
    exponent = torch.frexp(x).exponent - 1
    exponent = torch.where(x == 0, torch.iinfo(torch.int32).min, exponent)
    exponent = torch.where(torch.isnan(x), torch.iinfo(torch.int32).min, exponent)
    return torch.where(torch.isinf(x), torch.iinfo(torch.int32).max, exponent)


def _logb(x: torch.Tensor) -> torch.Tensor:
    exponent = (torch.frexp(x).exponent - 1).to(x.dtype)
    exponent = torch.where(x == 0, -torch.inf, exponent)
    return torch.where(torch.isfinite(x), exponent, x.abs())


def _ldexp(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    # In two steps, for 2**exponent alone may leave the range that the product is in.
    half = exponent.div(2, rounding_mode="trunc")
    wide = x.double()
    return (wide * torch.exp2(half.double()) * torch.exp2((exponent - half).double())).to(x.dtype)


def _normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return (torch.erfc(-x.double() * 0.5**0.5) / 2).to(x.dtype)


def _hypot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    infinite = torch.isinf(a) | torch.isinf(b)
    return torch.where(infinite, torch.inf, torch.hypot(a, b))


def _fmin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.fmin(a, b)


def _fmax(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.fmax(a, b)


SAME_TYPE: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin,
    "asinh": torch.asinh, "atan": torch.atan, "atan2": torch.atan2, "atanh": torch.atanh,
    "cbrt": _cbrt, "ceil": torch.ceil, "copysign": torch.copysign, "cos": torch.cos,
    "cosh": torch.cosh, "cospi": _cospi, "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1, "div_rn": torch.div, "erf": torch.erf,
    "erfc": torch.erfc, "erfcx": torch.special.erfcx, "erfinv": torch.erfinv, "exp": torch.exp,
    "exp2": torch.exp2, "expm1": torch.expm1, "fast_cosf": torch.cos,
    "fast_dividef": torch.div, "fast_expf": torch.exp, "fast_logf": torch.log,
    "fast_log2f": torch.log2, "fast_log10f": torch.log10, "fast_powf": torch.pow,
    "fast_sinf": torch.sin, "fast_tanf": torch.tan, "fast_tanhf": torch.tanh,
    "floor": torch.floor, "fma": _fma, "fma_rn": _fma, "fmod": _fmod, "hypot": _hypot,
    "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1, "ldexp": _ldexp,
    "lgamma": torch.lgamma, "log": torch.log, "log10": torch.log10, "log1p": torch.log1p,
    "log2": torch.log2, "logb": _logb, "max": _fmax, "min": _fmin,
    "nearbyint": torch.round, "nextafter": torch.nextafter, "normcdf": _normal_cdf,
    "pow": torch.pow, "rcp_rn": torch.reciprocal, "remainder": _remainder, "rint": torch.round,
    "round": _round_half_away, "rsqrt": torch.rsqrt, "rsqrt_rn": torch.rsqrt, "sin": torch.sin,
    "sinh": torch.sinh, "sinpi": _sinpi, "sqrt": torch.sqrt, "sqrt_rn": torch.sqrt,
    "tan": torch.tan, "tanh": torch.tanh, "tgamma": _gamma, "trunc": torch.trunc,
    "add_rn": torch.add, "mul_rn": torch.mul, "sub_rn": torch.sub,
    "y0": torch.special.bessel_y0, "y1": torch.special.bessel_y1,
}  # fmt: skip
"""Name of a libdevice function: what it computes, in the type of its first argument."""

OTHER_TYPE: dict[str, tuple[Unary, Any]] = {
    "finitef": (torch.isfinite, tl.int32),
    "isfinited": (torch.isfinite, tl.int32),
    "isinf": (torch.isinf, tl.int32),
    "isnan": (torch.isnan, tl.int32),
    "signbit": (torch.signbit, tl.int32),
    "ilogb": (_ilogb, tl.int32),
    "llrint": (lambda x: torch.round(x), tl.int64),
    "llround": (_round_half_away, tl.int64),
}
"""Name of a libdevice function that gives integers: what it computes, and their type."""


def functions() -> dict[str, Callable[..., Any]]:
    """Return every function, callable from a running kernel on ``tl.tensor`` and numbers."""
    out = {name: _device_function(name, f, None) for name, f in SAME_TYPE.items()}
    for name, (f, dtype) in OTHER_TYPE.items():
        out[name] = _device_function(name, f, dtype)
    return out


def _device_function(
    name: str, compute: Callable[..., torch.Tensor], result: Any
) -> Callable[..., Any]:
    def call(*args: Any, _semantic: Any = None) -> Any:
        semantic = interpreter.interpreter_semantic
        values = [semantic.to_tensor(a) for a in args]
        for i in range(1, len(values)):
            values[0], values[i] = semantic.broadcast_impl_value(values[0], values[i])
        for i in range(1, len(values) - 1):
            _, values[i] = semantic.broadcast_impl_value(values[0], values[i])
        dtype = result if result is not None else values[0].dtype.scalar
        arrays = np.broadcast_arrays(*(v.handle.data for v in values))
        out = compute(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays))
        kept = semantic.builder.from_torch(out, dtype)
        shape = values[0].shape
        return tl.tensor(kept, tl.block_type(dtype, list(shape)) if shape else dtype)

    call.__name__ = call.__qualname__ = name
    return call
