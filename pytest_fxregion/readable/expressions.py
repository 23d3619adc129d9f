"""An argument of a node in, the Python expression for it out.

Where an argument has no expression of its own (an object, a tensor, a function of the user's), the
text is still valid Python and the same in every process.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.operators import (
    HigherOrderOperator,
    OpOverload,
    triton_constant_args,
    triton_kernel,
)
from pytest_fxregion.readable.constants import tensor_constant_text
from pytest_fxregion.readable.counters import (
    COUNTED_FIRST_ARGUMENT,
    COUNTED_KEYWORDS,
    Counters,
)
from pytest_fxregion.readable.names import Names, attribute_path, is_name, path_of_callable
from pytest_fxregion.readable.values import (
    PLAIN_TYPES,
    address_free_repr,
    qualified_name,
    stable_text,
)

_IN_ANGLES = re.compile(r"<[^>]*>\.?")

# How torch's text writes calls of Python's operators.
_OPERATORS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "matmul": "{} @ {}",
    "truediv": "{} / {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
}
_IN_PLACE_OPERATORS = {
    "iadd": "{} += {}",
    "isub": "{} -= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "itruediv": "{} /= {}",
    "ifloordiv": "{} //= {}",
    "imod": "{} %= {}",
    "ipow": "{} **= {}",
    "ilshift": "{} <<= {}",
    "irshift": "{} >>= {}",
    "iand": "{} &= {}",
    "ior": "{} |= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}


class Expressions:
    """Writes the arguments of one graph's nodes, with the names in ``names``."""

    def __init__(self, names: Names, counters: Counters) -> None:
        self._names = names
        self._name_of_node = names.of_node
        self._name_of_target: dict[Any, str] = {}
        self._counters = counters
        self._notes: list[str] = []

    def call(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
        """Return what stands between the parentheses of a call."""
        parts = [self.text(arg) for arg in args]
        if kwargs:
            parts += [self._keyword(name, value) for name, value in kwargs.items()]
        return ", ".join(parts)

    def text(self, value: Any) -> str:
        """Return the expression for ``value``."""
        kind = type(value)
        if kind is fx.Node:
            return self._name_of_node[value]
        if kind in PLAIN_TYPES:
            return repr(value)
        if isinstance(value, list):
            return f"[{', '.join([self.text(item) for item in value])}]"
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, dict):
            pairs = [f"{self.text(key)}: {self.text(item)}" for key, item in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join([self.text(part) for part in parts])})"
        if isinstance(value, (OpOverload, HigherOrderOperator)):
            return self.target(value)
        return self._object(value)

    def function_call(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the expression for what a ``call_function`` node computes."""
        if getattr(target, "__module__", None) == "_operator":
            template = _OPERATORS.get(target.__name__)
            if template is not None:
                return template.format(*[self.text(arg) for arg in args])
        if target is getattr and len(args) == 2 and isinstance(args[1], str) and not kwargs:
            return attribute_path(self.text(args[0]), args[1])
        if isinstance(target, HigherOrderOperator):
            args, kwargs = self._counted_from_zero(target.__name__, args, kwargs)
        return f"{self.target(target)}({self.call(args, kwargs)})"

    def in_place_statement(self, target: Any, args: tuple[Any, ...]) -> str | None:
        """Return the statement for an operator that changes its first argument, else None."""
        if getattr(target, "__module__", None) != "_operator":
            return None
        template = _IN_PLACE_OPERATORS.get(target.__name__)
        if template is None:
            return None
        return template.format(*[self.text(arg) for arg in args])

    def target(self, target: Any) -> str:
        """Return the expression for the function that a node calls.

        A compiled region goes by its name, which is the same in all of its graph's texts.
        """
        try:
            known = self._name_of_target.get(target)
        except TypeError:  # cannot be hashed
            return self._names.of_object(target, path_of_callable(target))
        if known is None:
            if hasattr(target, "fxregion_region"):
                known = str(target.__name__)
            else:
                known = self._names.of_object(target, path_of_callable(target))
            self._name_of_target[target] = known
        return known

    def take_notes(self) -> list[str]:
        """Return what the expressions since the last call of this could not say, a line each."""
        if not self._notes:
            return []
        taken, self._notes = self._notes, []
        return taken

    def _counted_from_zero(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Replace the arguments of a higher-order operator that index a table of the process."""
        kind = COUNTED_FIRST_ARGUMENT.get(name)
        if kind is not None and args:
            args = (self._counters.number(kind, args[0]), *args[1:])
        keywords = COUNTED_KEYWORDS.get(name, ())
        if not keywords:
            return args, kwargs
        if "kernel_idx" in kwargs:
            kernel = triton_kernel(kwargs["kernel_idx"])
            while hasattr(kernel, "fn"):  # a jitted function, and an autotuner around it
                kernel = kernel.fn
            self._notes.append(f"kernel: {stable_text(kernel)}")
        constants = triton_constant_args(kwargs.get("constant_args_idx"))
        if constants:
            self._notes.append(f"constant_args: {stable_text(constants)}")
        return args, {
            key: self._counters.number(key, value) if key in keywords else value
            for key, value in kwargs.items()
        }

    def _keyword(self, name: str, value: Any) -> str:
        # Some operators have a parameter called `from`.
        if is_name(name):
            return f"{name} = {self.text(value)}"
        return f"**{{{name!r}: {self.text(value)}}}"

    def _tuple(self, value: tuple[Any, ...]) -> str:
        comma = "," if len(value) == 1 else ""
        items = f"({', '.join([self.text(item) for item in value])}{comma})"
        if hasattr(value, "_fields"):
            kind = type(value)
            return f"{self._names.of_object(kind, path_of_callable(kind))}{items}"
        return items

    def _object(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            kind = type(value)
            in_torch = kind.__module__.split(".")[0] == "torch"
            path = path_of_callable(kind) if in_torch else kind.__name__
            name = self._names.of_object(kind, path)
            # A combination of flags need not have a name.
            return f"{name}({value.value!r})" if value.name is None else f"{name}.{value.name}"
        if isinstance(value, torch.Tensor):
            self._notes.append(f"value: {tensor_constant_text(value)}")
            dtype = str(value.dtype).removeprefix("torch.")
            return f"torch.Tensor(size={list(value.size())}, dtype={dtype})"
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return str(value)
        if hasattr(type(value), "__fx_repr__"):
            own = str(value.__fx_repr__()[0])
            if _is_one_argument(own):
                return own
        if isinstance(value, (set, frozenset)):
            return stable_text(value)
        if callable(value) and isinstance(getattr(value, "__name__", None), str):
            return self.target(value)
        return _valid_expression(value)


def _valid_expression(value: object) -> str:
    """Return the value's own ``repr`` if that can be an argument, else its class called."""
    text = address_free_repr(value)
    if _is_one_argument(text):
        return text
    path = _IN_ANGLES.sub("", qualified_name(type(value))).strip(".")
    return f"{path}(...)"


def _is_one_argument(text: str) -> bool:
    if not text.isprintable():
        return False
    try:
        ast.parse(text, mode="eval")
        # With another one after it, so that neither a comma nor a comment can end it.
        call = ast.parse(f"_({text}, _)", mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(call, ast.Call) or call.keywords:
        return False
    return len(call.args) == 2 and not isinstance(call.args[0], ast.Starred)
