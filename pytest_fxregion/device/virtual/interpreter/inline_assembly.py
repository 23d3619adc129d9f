"""Inline PTX: single arithmetic instructions, by what they compute.

In: the text that a kernel gives to ``tl.inline_asm_elementwise``, numpy arrays.  Out: an array.
Inductor writes such instructions for ``atan``; users for approximations.  An ``approx``
instruction is computed exactly here: its error on a GPU (PTX ISA, "Floating-Point Instructions")
is not modelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pytest_fxregion.errors import DeviceError

Array = npt.NDArray[Any]

_INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "cos": np.cos,
    "div": np.divide,
    "ex2": np.exp2,
    "fma": lambda a, b, c: a.astype(np.float64) * b + c,
    "lg2": np.log2,
    "max": np.fmax,
    "min": np.fmin,
    "mov": lambda a: a,
    "mul": np.multiply,
    "neg": np.negative,
    "rcp": lambda a: 1 / a,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "tanh": np.tanh,
}
_MODIFIERS = {"rn", "approx", "ftz", "full"}
_TYPES = {"f32": np.float32, "f64": np.float64}


def run_assembly(assembly: str, arguments: list[Array], result: np.dtype[Any]) -> Array:
    """Return what one instruction computes, for every element.

    Raises :class:`DeviceError` quoting the assembly if it is anything else.
    """
    found = re.fullmatch(r"\s*(\w+)((?:\.\w+)+)\s+\$0\s*((?:,\s*\$\d+\s*)*);?\s*", assembly)
    parts = found.group(2).strip(".").split(".") if found else []
    operands = [int(n) - 1 for n in re.findall(r"\$(\d+)", found.group(3))] if found else []
    if (
        found is None
        or found.group(1) not in _INSTRUCTIONS
        or parts[-1] not in _TYPES
        or not set(parts[:-1]) <= _MODIFIERS
        or any(not 0 <= n < len(arguments) for n in operands)
    ):
        raise DeviceError(
            f"the virtual CUDA device cannot execute inline PTX: {' '.join(assembly.split())!r}; "
            "use a GPU (--fxregion-device=cuda)"
        )
    flush = "ftz" in parts
    values = [_flushed(arguments[n]) if flush else arguments[n] for n in operands]
    with np.errstate(all="ignore"):
        out = np.asarray(_INSTRUCTIONS[found.group(1)](*values)).astype(result)
    return _flushed(out) if flush else out


def _flushed(values: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    smallest = torch.finfo(torch.float32).tiny
    return np.where(np.abs(values) < smallest, np.copysign(values.dtype.type(0), values), values)
