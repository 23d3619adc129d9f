"""What must agree besides numbers.  In: two results of one name; out: what differs, in words."""

from __future__ import annotations

import torch


def different_form(eager: torch.Tensor, regional: torch.Tensor) -> str | None:
    """Compare shape, dtype, device, layout, ``requires_grad`` and strides of two tensors."""
    for what in ("shape", "dtype", "device", "layout", "requires_grad"):
        a, b = getattr(eager, what), getattr(regional, what)
        if a != b:
            return f"{what} differs: eager {_text(a)}, regional {_text(b)}"
    if (
        eager.layout is torch.strided
        and eager.numel() > 1
        and _strides(eager) != _strides(regional)
    ):
        return f"strides differ: eager {eager.stride()}, regional {regional.stride()}"
    return None


def different_objects(eager: object, regional: object) -> str | None:
    """Compare two results of which one at least is no tensor."""
    try:
        same = type(eager) is type(regional) and bool(eager == regional)
    except Exception:  # it holds tensors or arrays, or compares in a way of its own
        return (
            f"a {type(eager).__qualname__} cannot be looked into: return tensors in lists, tuples "
            "or dictionaries, or register it with torch.utils._pytree"
        )
    return None if same else f"eager gives {_written(eager)}, regional {_written(regional)}"


def _written(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # of the user's own
        return f"a {type(value).__qualname__}"


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others address nothing."""
    return tuple(
        stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    )


def _text(value: object) -> object:
    return tuple(value) if isinstance(value, torch.Size) else value
