"""Call the function under test once: copied inputs, forward, backward, named results.

Comes in: a :class:`~pytest_fxregion.call.Call`.  Goes out: :class:`Results`, the same names
whether the call was eager, in float64 or compiled, so that they can be compared one by one.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy
import torch
from torch import nn

from pytest_fxregion._torch.autograd import has_gradient_edge, was_written
from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion._torch.modes import DispatchMode
from pytest_fxregion._torch.tensors import is_wrapper_subclass, storage_key
from pytest_fxregion.call import Call, hooks_copied, named_leaves, named_parameters
from pytest_fxregion.containers import flat, flatten_with_names, mapped, replaced
from pytest_fxregion.contents import drawing_from
from pytest_fxregion.errors import CheckError
from pytest_fxregion.held_state import HeldState
from pytest_fxregion.objects import is_a


@dataclass(frozen=True)
class Results:
    """What one call gave.

    ``outputs`` is what the function returned.  ``values`` holds, by name, every result that is
    compared: outputs (``output``, ``output[0]``…), arguments and buffers that the call changed
    (``x after the call``), gradients (``gradient of w``), which outputs lie in the memory of what
    (``output[0] in the memory of x``: from which element on), and the generators' states if random
    numbers were drawn.  A tensor subclass is there by the tensors that it is made of: ``output.a``.
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
    watch: AbstractContextManager[object] | None = None,
) -> Results:
    """Call the function once, forward and backward, and return what came of it.

    ``run`` takes the function's place (its compiled form).  ``grad_outputs`` are the cotangents of
    the outputs that require gradients, in order; without them they are drawn from ``seed``.  Pass
    those of the first call to the others, so that all start from the same numbers.  Arguments that
    require a gradient only since the call wrote to them are such outputs too, after the others;
    their cotangents may be left out, and are zeros then.
    ``before_backward`` is given the names of the tensors that gradients are collected for, by
    identity, and the outputs.  ``watch`` is entered for the forward and again for the backward: it
    sees nothing of what is kept and compared around them.  Afterwards modules (parameters, buffers,
    attributes), tensors that the function brings along, and the gradients of all of them are as
    before.
    """
    copied = Call(call.function, *_copy_arguments(call))
    before = flatten_with_names(copied.argument_names())
    names = _with_arrays_as_tensors(before)
    given = _with_arrays_as_tensors(flatten_with_names(call.argument_names()))
    held = HeldState.of(copied)
    # What the user has compiled already is eager's as it is written; dynamo looks into it anyway.
    is_eager = run is None and call.reaches_compiled()
    watch = nullcontext() if watch is None else watch
    with held.kept(), torch.compiler.set_stance("force_eager") if is_eager else nullcontext():
        torch.manual_seed(seed)
        state = _random_state()
        function = call.function if run is None else run
        with watch:
            outputs = function(*copied.args, **copied.kwargs)
        used_randomness = _random_state() != state
        named_outputs = dict(flatten_with_names({"output": outputs}))
        values: dict[str, Any] = {name: _frozen(value) for name, value in named_outputs.items()}
        shared = _shared_memory(named_outputs, {**dict(names), **held.named()})
        gradients: dict[str, torch.Tensor] = {}
        cotangents: list[torch.Tensor] = []
        changed = _changed_by_gradients(names, named_outputs.values())
        wanting = [t for t in (*named_outputs.values(), *changed) if _needs_gradient(t)]
        if backward and wanting:
            if before_backward is not None:
                before_backward(named_leaves(copied), [*named_outputs.values(), *changed])
            cotangents = (
                _given_cotangents(grad_outputs, wanting, len(changed))
                if grad_outputs is not None
                else draw_cotangents(wanting, seed)
            )
            with watch:
                torch.autograd.backward(wanting, cotangents)
            gradients = _gradients([*names, *held.tensors.items()], held.modules)
            values |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
        values |= _changed_arguments(given, names)
        values |= {
            f"{name} after the call": leaf.detach().clone() if torch.is_tensor(leaf) else leaf
            for name, leaf in replaced(before, flatten_with_names(copied.argument_names())).items()
        }
        values |= held.changed()
        values = dict(_without_subclasses(values)) | shared
        values |= {
            f"random state of {device} after the call": hashlib.sha256(after).hexdigest()[:16]
            for device, after in _random_state().items()
            if after != state.get(device)
        }
    return Results(outputs, values, gradients, tuple(cotangents), used_randomness)


@dataclass(frozen=True)
class Again:
    """A call, to be run again from the same inputs, seed and cotangents.

    ``draws`` are the states of other random numbers than torch's, which the test may draw from too.
    """

    call: Call
    seed: int
    backward: bool
    cotangents: tuple[torch.Tensor, ...]
    dynamic: bool | None
    draws: tuple[Callable[[], None], ...] = ()

    def run(self, function: Callable[..., Any] | None = None) -> dict[str, Any]:
        """Run it, with ``function`` (its compiled form) in the function's place; named values."""
        with drawing_from(self.draws):
            return execute(
                self.call,
                run=function,
                seed=self.seed,
                backward=self.backward,
                grad_outputs=self.cotangents or None,
            ).values


def _changed_by_gradients(
    arguments: Sequence[tuple[str, Any]], outputs: Iterable[Any]
) -> list[torch.Tensor]:
    """Return the arguments that have a gradient's history since the call, and are no output."""
    returned = {id(output) for output in outputs}
    return [
        tensor
        for _, tensor in arguments
        if is_a(tensor, torch.Tensor) and not tensor.is_leaf and id(tensor) not in returned
    ]


def _given_cotangents(
    given: Sequence[torch.Tensor], wanting: Sequence[torch.Tensor], changed: int
) -> list[torch.Tensor]:
    if len(given) == len(wanting) - changed:
        given = [*given, *(torch.zeros_like(t) for t in wanting[len(given) :])]
    if len(given) != len(wanting):
        shapes = ", ".join(str(list(t.shape)) for t in wanting) or "none"
        raise CheckError(
            f"{len(given)} gradients of outputs are there, and {len(wanting)} results of this call "
            f"can take one (of shapes {shapes})"
        )
    return [g.to(t.dtype) for g, t in zip(given, wanting, strict=True)]


def stream_seed(seed: int, what: str) -> int:
    """Return the seed of one of the streams of random numbers that a test draws from.

    Each has its own.  Inputs and cotangents of one stream would be the same numbers, and the
    gradient of a normalization, which is zero along its input, would hardly be checked.
    """
    digest = hashlib.sha256(f"{seed} {what}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def draw_cotangents(outputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Return a random cotangent for each output, of its shape, dtype and device.

    Drawn on the CPU, in float32, so that they are the same for every device and precision.
    """
    generator = torch.Generator().manual_seed(stream_seed(seed, "cotangents"))

    def draw(output: torch.Tensor) -> torch.Tensor:
        if is_wrapper_subclass(output):
            names, context = output.__tensor_flatten__()
            parts = {name: getattr(output, name) for name in names}
            # Integers say where in the others something lies: offsets of a jagged tensor, say.
            parts |= {n: draw(p) for n, p in parts.items() if _is_real(p)}
            kind: Any = type(output)
            made = kind.__tensor_unflatten__(parts, context, output.size(), output.stride())
            assert isinstance(made, torch.Tensor)
            return made
        return torch.randn(
            output.shape,
            generator=generator,
            dtype=torch.complex64 if output.is_complex() else torch.float32,
        ).to(dtype=output.dtype, device=output.device)

    return [draw(output) for output in outputs]


def _is_real(value: Any) -> bool:
    return is_a(value, torch.Tensor) and value.is_floating_point()


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
            if is_a(value, torch.Tensor) and value.is_floating_point():
                known = self.lowest
                if known is None or torch.finfo(value.dtype).eps > torch.finfo(known).eps:
                    self.lowest = value.dtype
        return result


def _copy_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copy tensors, one that is passed twice only once, keeping strides and requires_grad.

    Tensors that share memory share it in the copy, at the same places.  What was set on a tensor
    comes along: ``torch._dynamo.mark_dynamic`` keeps its marks there.
    """
    leaves = {id(t): t for t in flat((call.args, call.kwargs)) if is_a(t, torch.Tensor)}
    count = Counter(key for leaf in leaves.values() for key in _memory(leaf))
    memory: dict[int, Any] = {}

    def copied(leaf: torch.Tensor) -> torch.Tensor:
        if any(count[key] > 1 for key in _memory(leaf)):
            # `.data` because a copy counts as not written to.
            made: torch.Tensor = copy.deepcopy(leaf.detach(), memory).data
        else:
            made = _copy_tensor(leaf)
        made.requires_grad_(leaf.requires_grad)
        if isinstance(leaf, nn.Parameter):
            made = nn.Parameter(made, leaf.requires_grad)
        if not is_wrapper_subclass(leaf):  # whose attributes are the tensors that it is made of
            vars(made).update(vars(leaf))
        hooks_copied(leaf, made)
        return made

    copies: dict[int, Any] = {key: copied(leaf) for key, leaf in leaves.items()}
    copies |= {id(a): a.copy() for a in flat((call.args, call.kwargs)) if _is_array(a)}
    args, kwargs = mapped(lambda leaf: copies.get(id(leaf), leaf), (call.args, call.kwargs))
    return args, kwargs


def _is_array(value: object) -> TypeGuard[numpy.ndarray[Any, Any]]:
    return type(value) is numpy.ndarray and value.flags.writeable


def _with_arrays_as_tensors(named: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Have a tensor in the memory of each array, as a function that is given one makes it."""
    return [(name, _tensor_of(value) if _is_array(value) else value) for name, value in named]


def _tensor_of(array: numpy.ndarray[Any, Any]) -> object:
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):  # texts, numbers of other sizes or orders of bytes
        return array


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


def _gradients(
    arguments: Sequence[tuple[str, Any]], modules: Mapping[str, nn.Module]
) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for name, tensor in (*arguments, *named_parameters(modules)):
        if is_a(tensor, torch.Tensor) and tensor.is_leaf and tensor.grad is not None:
            found.setdefault(name, tensor.grad.detach().clone())
    return found


def _changed_arguments(
    before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]
) -> dict[str, torch.Tensor]:
    """Return what was written to, and what shares memory with that.

    Not every write is counted: a compiled graph's to memory that several arguments share, and those
    of `torch._foreach_*_` under a dispatch mode (2.11 to 2.15).  So other values tell as well.
    """
    pairs = [
        (name, original, tensor)
        for (name, original), (_, tensor) in zip(before, after, strict=True)
        if is_a(original, torch.Tensor)
    ]
    written: set[int] = set()
    memory: set[int] = set()
    for _, original, tensor in pairs:
        if was_written(tensor) or (_memory(tensor) and not torch.equal(original, tensor)):
            written.add(id(tensor))
            memory.update(_memory(tensor))
    return {
        f"{name} after the call": tensor.detach()
        for name, _, tensor in pairs
        if id(tensor) in written or not memory.isdisjoint(_memory(tensor))
    }


def _shared_memory(outputs: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, int]:
    """Say which outputs lie in the memory of an argument, parameter, buffer or earlier output.

    The number is how many elements an output begins after what it shares the memory of.
    """
    found: dict[str, int] = {}
    owners: dict[int, tuple[str, int]] = {}
    for name, value in (*held.items(), *outputs.items()):
        if not is_a(value, torch.Tensor) or not value.numel():
            continue
        for key in _memory(value):
            offset = int(value.storage_offset())
            if key not in owners:
                owners[key] = name, offset
            elif name in outputs:
                owner, start = owners[key]
                found[f"{name} in the memory of {owner}"] = offset - start
    return found


def _memory(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return what tells whether two tensors share memory; nothing for what is made of others."""
    return () if is_wrapper_subclass(tensor) else storage_key(tensor)


def _without_subclasses(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Replace each tensor subclass by what it is, as text, and the tensors that it is made of."""
    for name, value in values.items():
        if not is_wrapper_subclass(value):
            yield name, value
            continue
        yield (
            f"form of {name}",
            (
                f"{type(value).__name__} of {value.dtype} on {value.device}, shape "
                f"{tuple(value.shape)}, strides {value.stride()}, "
                f"{'with' if value.requires_grad else 'without'} gradient"
            ),
        )
        parts = {part: getattr(value, part) for part in value.__tensor_flatten__()[0]}
        yield from _without_subclasses(
            {f"{name}.{p}": t.detach() for p, t in parts.items() if is_a(t, torch.Tensor)}
        )


def _needs_gradient(value: Any) -> bool:
    return is_a(value, torch.Tensor) and has_gradient_edge(value)


def _frozen(value: Any) -> Any:
    """The value as it is now: a later change of the tensor does not change it."""
    if not is_a(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _random_state() -> dict[str, bytes]:
    """Return the states of the generators that are used without being named, by device."""
    states = {"cpu": torch.get_rng_state().numpy().tobytes()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    return states
