"""Call the function under test once: copied inputs, forward, backward, named results.

Comes in: a :class:`~pytest_fxregion.call.Call`.  Goes out: :class:`Results`, the same names
whether the call was eager, in float64 or compiled, so that they can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_fxregion._torch import (
    DispatchMode,
    tree_flatten_with_names,
    tree_leaves,
    tree_map,
    was_written,
)
from pytest_fxregion.call import Call, named_leaves, named_parameters


@dataclass(frozen=True)
class Results:
    """What one call gave.

    ``outputs`` is what the function returned.  ``values`` holds, by name, every result that is
    compared: outputs (``output``, ``output[0]``…), arguments and buffers that the call changed
    (``x after the call``), and gradients (``gradient of w``).
    """

    outputs: Any
    values: dict[str, Any]
    gradients: dict[str, torch.Tensor]
    cotangents: tuple[torch.Tensor, ...]
    used_randomness: bool


def execute(
    call: Call,
    *,
    run: Callable[..., Any] | None = None,
    seed: int,
    backward: bool,
    grad_outputs: Sequence[torch.Tensor] | None = None,
    before_backward: Callable[[dict[int, str], list[Any]], None] | None = None,
) -> Results:
    """Call the function once, forward and backward, and return what came of it.

    ``run`` takes the function's place (its compiled form).  ``grad_outputs`` are the cotangents of
    the outputs that require gradients, in order; without them they are drawn from ``seed``.  Pass
    those of the first call to the others, so that all start from the same numbers.
    ``before_backward`` is given the names of the tensors that gradients are collected for, by
    identity, and the outputs.  Afterwards modules (parameters, buffers, attributes), tensors that
    the function brings along, and the gradients of all of them are as before.
    """
    copied = Call(call.function, *_copy_arguments(call))
    names = tree_flatten_with_names(copied.argument_names())
    given = tree_flatten_with_names(call.argument_names())
    modules = copied.modules()
    brought = copied.brought_tensors()
    with _state_kept(modules.values(), brought.values()) as before:
        torch.manual_seed(seed)
        state = _random_state()
        function = call.function if run is None else run
        outputs = function(*copied.args, **copied.kwargs)
        used_randomness = _random_state() != state
        named_outputs = dict(tree_flatten_with_names({"output": outputs}))
        values: dict[str, Any] = {name: _frozen(value) for name, value in named_outputs.items()}
        gradients: dict[str, torch.Tensor] = {}
        cotangents: list[torch.Tensor] = []
        wanting = [t for t in named_outputs.values() if _needs_gradient(t)]
        if backward and wanting:
            if before_backward is not None:
                before_backward(named_leaves(copied), list(named_outputs.values()))
            cotangents = (
                [g.to(t.dtype) for g, t in zip(grad_outputs, wanting, strict=True)]
                if grad_outputs is not None
                else draw_cotangents(wanting, seed)
            )
            torch.autograd.backward(wanting, cotangents)
            gradients = _gradients([*names, *brought.items()], modules)
            values |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
        values |= _changed_arguments(given, names)
        values |= _changed_buffers(modules)
        values |= {
            f"{name} after the call": tensor.detach().clone()
            for name, tensor in brought.items()
            if not torch.equal(tensor, before[id(tensor)])
        }
    return Results(outputs, values, gradients, tuple(cotangents), used_randomness)


def draw_cotangents(outputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Return a random cotangent for each output, of its shape, dtype and device.

    Drawn on the CPU, in float32, so that they are the same for every device and precision.
    """
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(
            output.shape,
            generator=generator,
            dtype=torch.complex64 if output.is_complex() else torch.float32,
        ).to(dtype=output.dtype, device=output.device)
        for output in outputs
    ]


class PrecisionWatch(DispatchMode):
    """Notes the lowest floating-point precision that any operation reads or gives."""

    supports_higher_order_operators = True  # cond, scan…: they come by like any other operation

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile work while the mode is active: eager's ``cond`` is built on it."""
        return True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lowest: torch.dtype | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at its tensors; a number that became a tensor is not one."""
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                known = self.lowest
                if known is None or torch.finfo(value.dtype).eps > torch.finfo(known).eps:
                    self.lowest = value.dtype
        return result


def _copy_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copy tensors, one that is passed twice only once, keeping strides and requires_grad.

    What was set on a tensor comes along: ``torch._dynamo.mark_dynamic`` keeps its marks there.
    """
    copies: dict[int, torch.Tensor] = {}

    def copy_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:
            copied = _copy_tensor(leaf).requires_grad_(leaf.requires_grad)
            if isinstance(leaf, nn.Parameter):
                copied = nn.Parameter(copied, leaf.requires_grad)
            vars(copied).update(vars(leaf))
            copies[id(leaf)] = copied
        return copies[id(leaf)]

    args, kwargs = tree_map(copy_leaf, (call.args, call.kwargs))
    return args, kwargs


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides, also where the elements have gaps or repeat."""
    tensor = tensor.detach()
    copied = tensor.clone()
    if tensor.layout is not torch.strided or copied.stride() == tensor.stride():
        return copied
    single = tensor
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension]:
            single = single.narrow(dimension, 0, 1)
    made = torch.empty_strided(
        single.shape, single.stride(), dtype=tensor.dtype, device=tensor.device
    )
    try:
        # `.data` because a copy counts as not written to.
        return made.copy_(single).expand(tensor.shape).data
    except RuntimeError:  # Windows that overlap cannot be written one by one.
        return copied


@contextmanager
def _state_kept(
    modules: Iterable[nn.Module], brought: Iterable[torch.Tensor]
) -> Iterator[dict[int, torch.Tensor]]:
    """Keep modules, tensors and their gradients through one call; gives the values before it."""
    every = [m for module in modules for m in module.modules()]
    tensors = {id(t): t for m in every for t in (*m.parameters(), *m.buffers())}
    tensors |= {id(t): t for t in brought}
    values = {key: tensor.detach().clone() for key, tensor in tensors.items()}
    gradients = {key: tensor.grad for key, tensor in tensors.items() if tensor.is_leaf}
    for key in gradients:
        tensors[key].grad = None
    # A module may also replace a buffer, or count in an attribute.
    attributes = [
        (held, dict(held))
        for m in every
        for held in (m.__dict__, m._parameters, m._buffers, m._modules)
    ]
    try:
        yield values
    finally:
        for held, content in attributes:
            if held.keys() != content.keys() or any(held[k] is not content[k] for k in content):
                held.clear()
                held.update(content)
        with torch.no_grad():
            for key, tensor in tensors.items():
                if not torch.equal(tensor, values[key]):
                    tensor.copy_(values[key])
            for key, gradient in gradients.items():
                tensors[key].grad = gradient


def _gradients(
    arguments: Sequence[tuple[str, Any]], modules: dict[str, nn.Module]
) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for name, tensor in (*arguments, *named_parameters(modules)):
        if isinstance(tensor, torch.Tensor) and tensor.is_leaf and tensor.grad is not None:
            found.setdefault(name, tensor.grad.detach().clone())
    return found


def _changed_arguments(
    before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]
) -> dict[str, torch.Tensor]:
    return {
        f"{name} after the call": tensor.detach()
        for (name, original), (_, tensor) in zip(before, after, strict=True)
        if isinstance(original, torch.Tensor) and was_written(tensor)
    }


def _changed_buffers(modules: dict[str, nn.Module]) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}.{name} after the call" if prefix else f"{name} after the call": (
            buffer.detach().clone()
        )
        for prefix, module in modules.items()
        for name, buffer in module.named_buffers()
    }


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _frozen(value: Any) -> Any:
    """The value as it is now: a later change of the tensor does not change it."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _random_state() -> bytes:
    state = torch.get_rng_state().numpy().tobytes()
    if torch.cuda.is_available():
        state += torch.cuda.get_rng_state().numpy().tobytes()
    return state
