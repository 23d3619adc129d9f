"""Names for the values of a graph and for the objects it refers to: unique and valid Python."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Any

import torch
from torch import fx

from pytest_fxregion.readable.values import qualified_name

_NOT_IN_NAMES = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"^(.*?)_\d+$")

# Objects of torch that are not found where they say.
_ELSEWHERE = {
    "torch.segment_reduce": "torch._segment_reduce",
    "torch.nn.functional._ScalingType": "torch.nn.functional.ScalingType",
    "torch.nn.functional._SwizzleType": "torch.nn.functional.SwizzleType",
}

# The globals that every generated graph module has; of two of them the object can be an argument.
_GRAPH_GLOBALS = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_GRAPH_TYPES = {type(None): "NoneType", torch.device: "device"}
_TAKEN = _GRAPH_GLOBALS | frozenset(keyword.kwlist) | frozenset(vars(builtins))


def identifier(text: str) -> str:
    """Return ``text`` with what cannot stand in a Python name replaced; never empty."""
    name = _NOT_IN_NAMES.sub("_", text) or "_unnamed"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def is_name(text: str) -> bool:
    """Whether ``text`` can stand in Python code as a name."""
    return text.isidentifier() and not keyword.iskeyword(text)


def attribute_path(base: str, path: str) -> str:
    """Return the expression for the dotted ``path`` below ``base``.

    A part that is no valid name (``blocks.0``), or a keyword (``aten.random.from``), is reached
    with ``getattr``.
    """
    for part in path.split("."):
        if is_name(part):
            base = f"{base}.{part}"
        else:
            plain = part.isprintable() and '"' not in part and "\\" not in part
            base = f'getattr({base}, "{part}")' if plain else f"getattr({base}, {part!r})"
    return base


class Names:
    """The names of one graph's text.

    A node keeps the name it has in the graph, unless that is taken or no valid Python.  Objects of
    torch go by their full path; any other object gets a name made from its own.
    """

    def __init__(self) -> None:
        self.of_node: dict[fx.Node, str] = {}
        self._of_object: dict[int, str] = {id(kind): name for kind, name in _GRAPH_TYPES.items()}
        self._used: set[str] = set(_GRAPH_GLOBALS)

    def add_node(self, node: fx.Node) -> str:
        """Name ``node``; every node must be named before it is used in the text."""
        name = node.name
        if name in self._used or name in _TAKEN or not name.isidentifier():
            name = self._unused(name)
        self._used.add(name)
        self.of_node[node] = name
        return name

    def of_object(self, value: Any, path: str) -> str:
        """Return an expression for the object at ``path`` (``module.name``)."""
        if _is_public_in_torch(value):
            head, _, tail = path.partition(".")
            return attribute_path(head, tail) if tail else head
        name = self._of_object.get(id(value))
        if name is None:
            if getattr(builtins, path, None) is value:
                return path
            name = self._unused(path)
            self._used.add(name)
            self._of_object[id(value)] = name
        return name

    def _unused(self, wanted: str) -> str:
        name = identifier(wanted)
        numbered = _NUMBERED.match(name)
        base = numbered[1] if numbered else name
        number = 0
        while name in self._used or name in _TAKEN:
            number += 1
            name = f"{base}_{number}"
        return name


def path_of_callable(target: Any) -> str:
    """Return where a callable is found, as ``module.name``, or its class where it has no name."""
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        return qualified_name(type(target))
    if getattr(builtins, name, None) is target:
        return name
    if getattr(torch.Tensor, name, None) is target:
        return f"torch.Tensor.{name}"
    module = getattr(target, "__module__", None)
    if not isinstance(module, str):
        found = [
            place for place in (torch, torch.nn.functional) if getattr(place, name, 0) is target
        ]
        module = found[0].__name__ if found else type(target).__name__
    # Operators say that they live in the private module that makes them.
    if module == "torch._ops" or module.startswith("torch._ops."):
        module = "torch.ops" + module.removeprefix("torch._ops")
    path = f"{module}.{name}"
    return _ELSEWHERE.get(path, path)


def _is_public_in_torch(value: Any) -> bool:
    """Whether torch's generated code would reach ``value`` by its path from ``torch``."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        name = getattr(value, "__name__", None)
        return (
            isinstance(name, str)
            and name != "torch"
            and any(getattr(place, name, 0) is value for place in (torch, torch.nn.functional))
        )
    parts = module.split(".")
    # Functions of the compiler are given names of their own.
    return bool(parts[0] == "torch" and not {"_dynamo", "_inductor"} & set(parts[1:-1]))
