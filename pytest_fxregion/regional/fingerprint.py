"""When two pieces may share one compiled artifact.  In: a body and its operands; out: a key.

Two pieces with equal keys compile to the same code.  The key is conservative: it holds everything
that Inductor may look at, and a thing that has no value to compare stands for itself.  It leaves
out what only tells where a node came from: names, stack traces, module stacks, ``seq_nr``, tags and
the user's own annotations.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Mapping

import torch
from torch.fx import GraphModule, Node

from pytest_fxregion._torch.inductor import annotations_read_by_inductor
from pytest_fxregion._torch.operators import OpOverload
from pytest_fxregion._torch.tensors import is_plain_tensor, storage_key

from .symbols import shape_environment_of
from .values import attribute_of


class Identity:
    """An object as a part of a key: equal only to itself, and alive as long as the key."""

    __slots__ = ("object",)

    def __init__(self, value: object) -> None:
        self.object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


def fingerprint(body: GraphModule, configs: Hashable, ambient: Hashable) -> Hashable:
    """Return the key of a body whose placeholders carry their operands' values.

    ``configs``: a key of the piece's configuration; ``ambient``: of everything else that a compile
    depends on besides its graph.
    """
    return (_graph_key(body), _device_key(body), configs, ambient)


def _device_key(body: GraphModule) -> Hashable:
    """Key the devices that code is made for: ``cuda:0`` may be another model than before."""
    vals = (node.meta.get("val") for node in body.graph.nodes)
    devices = {val.device for val in vals if isinstance(val, torch.Tensor)}
    return tuple(
        (str(device), repr(torch.get_device_module(device).get_device_properties(device)))
        for device in sorted(devices, key=str)
        if device.type not in ("cpu", "meta")
    )


def _graph_key(module: GraphModule) -> Hashable:
    number: dict[Node, int] = {}
    storages: dict[int, int] = {}
    parts: list[Hashable] = []

    def argument(value: object) -> Hashable:
        return ("node", number[value]) if isinstance(value, Node) else _constant(value, argument)

    for i, node in enumerate(module.graph.nodes):
        number[node] = i
        if node.op == "placeholder":
            parts.append(("placeholder", _value_key(node.meta.get("val"), storages)))
            continue
        target: Hashable = node.target
        if node.op in ("get_attr", "call_module"):
            held = attribute_of(module, str(node.target))
            target = _graph_key(held) if isinstance(held, GraphModule) else Identity(held)
        elif isinstance(target, OpOverload):
            target = target.name()
        elif callable(target):
            target = Identity(target)
        # A symbol that is made inside belongs to one node of one graph.
        bindings = node.meta.get("unbacked_bindings")
        parts.append(
            (
                node.op,
                target,
                argument(node.args),
                argument(node.kwargs),
                str(bindings) if bindings else None,
                str(node.meta.get("recompute")) if torch.is_grad_enabled() else None,
                argument(annotations_read_by_inductor(node)),
            )
        )
    return tuple(parts)


def _constant(value: object, argument: Callable[[object], Hashable]) -> Hashable:
    """Key an argument: 1, 1.0 and True have different keys, as do 0.0 and -0.0."""
    kind = type(value)
    if isinstance(value, (list, tuple)):
        return (kind.__name__, *map(argument, value))
    if isinstance(value, Mapping):
        return (kind.__name__, *((key, argument(item)) for key, item in value.items()))
    if isinstance(value, (float, complex)):
        return (kind.__name__, repr(value))
    if value is None or isinstance(
        value, (bool, int, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
    ):
        return (kind.__name__, value)
    return Identity(value)


def _value_key(value: object, storages: dict[int, int]) -> Hashable:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (type(value).__name__, str(value.node.expr), _environment_key(value))
    if isinstance(value, torch.Tensor):
        if not is_plain_tensor(value):
            return Identity(value)
        sizes = (*value.shape, *value.stride(), value.storage_offset())
        return (
            "tensor",
            value.dtype,
            value.device,
            value.dim(),
            tuple(s if isinstance(s, int) else _value_key(s, storages) for s in sizes),
            value.requires_grad,
            value.is_conj(),
            value.is_neg(),
            tuple(storages.setdefault(key, len(storages)) for key in storage_key(value)),
        )
    return _constant(value, lambda item: _value_key(item, storages))


_environments: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_environment_numbers = itertools.count()


def _environment_key(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> int:
    """Number the shape environment of a symbol: ``s0`` of another one is another symbol."""
    environment = shape_environment_of(number)
    if environment not in _environments:
        _environments[environment] = next(_environment_numbers)
    return _environments[environment]
