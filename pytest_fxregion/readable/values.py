"""Any Python value in, one line of text out that is the same in every process.

Values reach a graph's text from annotations (``torch.fx.traceback.annotate`` takes any object) and
from constants.  Their own ``repr`` may hold memory addresses, line breaks, or the order in which a
set was hashed; the text made here holds none of them and leaves nothing out.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import re
import types
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy
import torch

from pytest_fxregion._torch.operators import OpOverload, OpOverloadPacket
from pytest_fxregion.readable.constants import HASH_DIGITS, tensor_constant_text

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

# The repr of these is a constant of the language or of torch.
PLAIN_TYPES = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(...),
        range,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)


def one_line(text: str) -> str:
    r"""Return ``text`` with every unprintable character (line breaks too) written as an escape.

    What is left can stand in a comment and be encoded as UTF-8.

    >>> one_line("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def qualified_name(value: Any) -> str:
    """Return ``module.qualname`` of a class or function; builtins go without their module."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str):
        return qualified_name(type(value))
    module = getattr(value, "__module__", None)
    return name if module in (None, "builtins") else f"{module}.{name}"


def stable_text(value: object) -> str:
    """Return one line that tells ``value`` apart from other values, in every process alike.

    Sets and mappings are written in sorted order, enums and functions by name, tensors by dtype,
    shape, device and a hash of their content, dataclasses by their fields.  Anything else is
    written by its ``repr`` without memory addresses, so that an object that has none of its own
    reads ``<package.Class object>``; so does one whose ``repr`` raises.
    """
    return one_line(_text(value, ()))


def _text(value: Any, inside: tuple[int, ...]) -> str:
    """Return the text of ``value``; ``inside`` are the ids of the containers around it."""
    kind = type(value)
    if kind in PLAIN_TYPES:
        return repr(value)
    if id(value) in inside:
        return "..."
    around = (*inside, id(value))

    def text(part: object) -> str:
        return _text(part, around)

    if isinstance(value, enum.Enum):
        # A combination of flags that has no name of its own is written by its number.
        member = value.name if value.name is not None else repr(value.value)
        return f"{kind.__qualname__}.{member}"
    if isinstance(value, (bool, int, float, complex, str, bytes)):
        return _base_repr(value)
    if isinstance(value, torch.Tensor):
        return f"tensor({tensor_constant_text(value)})"
    if isinstance(value, numpy.generic):  # its repr differs between versions of numpy
        item = value.item()
        return str(item) if isinstance(item, numpy.generic) else text(item)
    if isinstance(value, numpy.ndarray):
        return f"array({_array_text(value)})"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value)
    if isinstance(value, torch.Size):
        return f"torch.Size([{', '.join(map(text, value))}])"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{text(key)}: {text(item)}" for key, item in sorted_items(value))
        return f"{{{pairs}}}"
    if isinstance(value, Set):
        items = ", ".join(map(text, _sorted(value)))
        braces = f"{{{items}}}" if items else ""
        return braces if kind is set and items else f"{kind.__name__}({braces})"
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        if fields is not None:
            named = ", ".join(f"{f}={text(v)}" for f, v in zip(fields, value, strict=True))
            return f"{kind.__qualname__}({named})"
        return f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, slice):
        return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
    if isinstance(value, functools.partial):
        parts = [text(value.func), *map(text, value.args)]
        parts += [f"{name}={text(item)}" for name, item in value.keywords.items()]
        return f"functools.partial({', '.join(parts)})"
    return _object_text(value, text)


def _array_text(array: numpy.ndarray[Any, Any]) -> str:
    described = f"{array.dtype}{list(array.shape)}"
    if array.dtype.hasobject:
        return f"{described} {stable_text(array.tolist())}"
    digest = hashlib.sha256(f"{described}".encode() + array.tobytes())
    return f"{described} sha256:{digest.hexdigest()[:HASH_DIGITS]}"


def _object_text(value: Any, text: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.MethodType):
        return qualified_name(value.__func__)
    if isinstance(value, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{value}"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return qualified_name(value)
    if dataclasses.is_dataclass(value):
        fields = ", ".join(
            f"{field.name}={text(getattr(value, field.name, None))}"
            for field in dataclasses.fields(value)
            if field.repr
        )
        return f"{type(value).__qualname__}({fields})"
    return address_free_repr(value)


def address_free_repr(value: object) -> str:
    """Return ``repr(value)`` without memory addresses; a stand-in where ``repr`` raises."""
    bare = f"<{qualified_name(type(value))} object>"
    if type(value).__repr__ is object.__repr__:
        return bare
    try:
        own = repr(value)
    except Exception:  # a user's own repr may raise anything
        return bare
    own = _ADDRESS.sub("", own)
    # Some write the address without "at", or in decimal.
    for address in (hex(id(value)), str(id(value))):
        own = own.replace(address, "...")
    return own


def _base_repr(value: bool | int | float | complex | str | bytes) -> str:
    """Return the repr that the builtin base of ``value``'s class gives."""
    for base in (bool, int, float, complex, str, bytes):
        if isinstance(value, base):
            return base.__repr__(value)
    raise AssertionError(type(value))


def sorted_items(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the items of ``mapping`` in an order that depends on their keys alone."""
    return [(key, mapping[key]) for key in _sorted(mapping)]


def _sorted(values: Iterable[Any]) -> list[Any]:
    """Return hashable ``values`` in an order that depends on nothing but them.

    Values of one kind that has an order keep it (2 before 10); others go by kind, then by text.
    """
    found = list(values)
    kinds = {type(value) for value in found}
    if len(kinds) == 1 and kinds <= {str, bytes, bool, int}:
        return sorted(found)
    return sorted(found, key=lambda value: (qualified_name(type(value)), stable_text(value)))
