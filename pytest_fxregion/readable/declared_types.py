"""A type that the traced function's source declared in, the expression for it out.

Only graphs of :func:`torch.fx.symbolic_trace` have such types; others have traced values.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pytest_fxregion.readable.names import Names
from pytest_fxregion.readable.values import address_free_repr, qualified_name

# The generic types that have an older spelling in `typing`.
_TYPING_ALIASES: Mapping[Any, Any] = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


def declared_type_text(declared: Any, names: Names) -> str:
    """Return the expression for ``declared``, an annotation of a parameter or of a return."""
    origin = typing.get_origin(declared)
    if origin is None:
        return _name(declared, names)
    parts = [declared_type_text(argument, names) for argument in typing.get_args(declared)]
    if isinstance(declared, types.UnionType):
        return "|".join(parts)
    if not isinstance(declared, types.GenericAlias):
        # The origin of typing.List[int] is list; it is written as it was.
        origin = _TYPING_ALIASES.get(origin, origin)
    name = _name(origin, names)
    return f"{name}[{','.join(parts)}]" if parts else name


def _name(declared: Any, names: Names) -> str:
    if isinstance(declared, type):
        return names.of_object(declared, qualified_name(declared))
    return names.of_object(declared, "..." if declared is ... else address_free_repr(declared))
