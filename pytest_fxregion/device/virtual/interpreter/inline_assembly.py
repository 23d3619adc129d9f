"""Inline PTX that kernels are known to contain, by what it computes."""

from __future__ import annotations

from typing import Any, NoReturn

from pytest_fxregion.errors import DeviceError


def run_assembly(assembly: str, constraints: str, values: Any, types: Any, pack: int) -> NoReturn:
    """Raise :class:`DeviceError`: no piece of assembly is known yet."""
    raise DeviceError(
        f"the virtual CUDA device cannot execute inline PTX: {' '.join(assembly.split())!r}; "
        "use a GPU (--fxregion-device=cuda)"
    )
