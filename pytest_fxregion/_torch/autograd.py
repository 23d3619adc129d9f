"""Autograd: its nodes, hooks, views, and what it counts of writes in place."""

from __future__ import annotations

from typing import Any

import torch

AutogradNode = torch.autograd.graph.Node


def sequence_number(node: AutogradNode) -> int:
    """Return the number that an autograd node shares with the operation that it belongs to."""
    return int(node._sequence_nr())  # 2.11 to 2.15


def input_forms(node: AutogradNode) -> tuple[Any, ...]:
    """Return dtype and shape of each gradient that an autograd node takes, 2.11 to 2.15.

    Those are the results of the operation that made it.
    """
    return tuple(node._input_metadata)


def has_gradient_edge(tensor: torch.Tensor) -> bool:
    """Whether a backward can start from ``tensor``.

    A view that was taken under ``no_grad`` of what requires a gradient says that it does, too, and
    has neither a ``grad_fn`` nor a node that collects its gradient.
    """
    if tensor.grad_fn is not None or not tensor.requires_grad:
        return tensor.requires_grad
    with torch.enable_grad():
        view = tensor.view_as(tensor)
    return view.grad_fn is not None and view.grad_fn.next_functions[0][0] is not None


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that autograd takes ``tensor`` for a view of; None if it is no view."""
    return tensor._base


def times_written(tensor: torch.Tensor) -> int:
    """Return how often operations have changed the tensor in place since it was made."""
    return tensor._version


def was_written(tensor: torch.Tensor) -> bool:
    """Whether an operation has changed the tensor in place since it was made.

    That of an inference tensor is not known.
    """
    return not tensor.is_inference() and times_written(tensor) > 0


def hooks_of(tensor: torch.Tensor) -> list[Any]:
    """Return the hooks that are called with a tensor's gradient; ``_backward_hooks``, 2.11 to 2.15.

    Those that were registered by ``Tensor.register_hook``.
    """
    return list((tensor._backward_hooks or {}).values()) if tensor.is_leaf else []


def post_accumulate_hooks_of(tensor: torch.Tensor) -> list[Any]:
    """Return the hooks of ``register_post_accumulate_grad_hook``.

    ``Tensor._post_accumulate_grad_hooks``: 2.11 to 2.15.
    """
    return list((getattr(tensor, "_post_accumulate_grad_hooks", None) or {}).values())
