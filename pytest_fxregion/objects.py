"""What objects hold in attributes, read and set without calling any code of theirs.

Comes in: any object, whose class may have properties, ``__getattr__``, ``__setattr__``,
``__copy__`` or a ``__class__`` of its own that raise or lie.  Goes out: attributes by name, and
whose the class is.
"""

from __future__ import annotations

import copy
import enum
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, TypeGuard, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

T = TypeVar("T")

PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))
# Met so often that nothing is looked up for them.
_CONTAINERS = frozenset((list, tuple, dict, OrderedDict, set))
# Never objects of the user's own that hold tensors.
_OTHERS = (torch.Tensor, nn.Module, Optimizer, ModuleType, type, enum.Enum, BaseException)
_NOT_THE_USERS = frozenset(("torch", "triton", "pytest_fxregion", "pytest", "_pytest", "pluggy"))
# Folders that Python's installers put packages into.
_INSTALLED = frozenset(("site-packages", "dist-packages"))


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Like :func:`isinstance`, but the object has no say in it: a proxy is none of what it says."""
    return issubclass(type(value), kind)


def is_users_own(value: object) -> bool:
    """Whether a value is an object of a class that is neither Python's, torch's nor pytest's.

    Schedulers count: they hold an optimizer, and where they are.
    """
    kind = type(value)
    if kind in _CONTAINERS:
        return False
    if kind is SimpleNamespace or issubclass(kind, LRScheduler):
        return True
    home = _home(kind).partition(".")[0]
    return not (
        not home
        or home in sys.stdlib_module_names
        or home in _NOT_THE_USERS
        or issubclass(kind, _OTHERS)
    )


def is_of_a_library(value: object) -> bool:
    """Whether the class of an object that is not Python's or torch's comes from a package.

    That is one which an installer put where it puts packages; one that is worked on is not there.
    """
    kind = type(value)
    return not issubclass(kind, LRScheduler) and _is_installed(_home(kind))


def attributes_of(value: object) -> dict[str, Any]:
    """Return an object's attributes, those in slots too, by name; what a module names is none."""
    found = dict(_dictionary(value))
    for key, slot in _slots(type(value)).items():
        try:
            found.setdefault(key, slot.__get__(value))
        except AttributeError:  # nothing is in it
            continue
    return {key: inner for key, inner in found.items() if not is_namespace(inner)}


def set_attribute(value: object, key: str, inner: Any) -> None:
    """Set an attribute, whatever the class says of it."""
    slot = _slots(type(value)).get(key)
    if slot is not None:
        slot.__set__(value, inner)
    else:
        _dictionary(value)[key] = inner


def remove_attribute(value: object, key: str) -> None:
    """Remove an attribute, whatever the class says of it."""
    slot = _slots(type(value)).get(key)
    if slot is not None:
        slot.__delete__(value)
    else:
        _dictionary(value).pop(key, None)


def copy_of(value: T) -> T:
    """Return another object of the class with the same attributes; itself where none can be made.

    What is kept elsewhere than in attributes, as a text's or an array's content, is for the class
    to copy.
    """
    made: Any
    try:
        made = _empty(value)
    except Exception:  # of the user's own, or "cannot pickle"
        return value
    if type(made) is not type(value):
        return value
    if made is not value:
        for key, inner in attributes_of(value).items():
            set_attribute(made, key, inner)
    return made


def entries_of(table: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the entries of a dictionary, whatever its class says of them."""
    # An ordered one has an order of its own.
    return list((OrderedDict if is_a(table, OrderedDict) else dict).items(table))


def set_entries(table: dict[Any, Any], entries: Iterable[tuple[Any, Any]]) -> None:
    """Let a dictionary hold these entries and no others, whatever its class says of it."""
    kind = OrderedDict if is_a(table, OrderedDict) else dict
    kind.clear(table)
    for key, value in entries:
        kind.__setitem__(table, key, value)


def _empty(value: Any) -> Any:
    """Return an object of the same class that has no attributes yet, and no entries."""
    kind = type(value)
    bases: tuple[Any, ...] = (OrderedDict, defaultdict, dict, list)
    for base in bases:
        if issubclass(kind, base):
            made = base.__new__(kind)
            if base is defaultdict:
                defaultdict.__init__(made, value.default_factory)
            return made
    try:
        return object.__new__(kind)
    except TypeError:  # an object of C, but for what Python has added
        return copy.copy(value)


def is_namespace(value: object) -> bool:
    """Whether a value is what a module's names are in, or the modules that are loaded."""
    return value is sys.modules or (type(value) is dict and "__builtins__" in value)


def _home(kind: type) -> str:
    try:
        name = kind.__module__
    except Exception:  # a metaclass's property
        return ""
    return name if type(name) is str else ""


@cache
def _is_installed(module: str) -> bool:
    path = getattr(sys.modules.get(module), "__file__", None)
    return type(path) is str and not _INSTALLED.isdisjoint(PurePath(path).parts)


def _dictionary(value: object) -> dict[str, Any]:
    """Return the dictionary of an object's attributes, an empty one if it has none."""
    for base in type(value).__mro__:
        found: Any = vars(base).get("__dict__")
        if type(found) in (GetSetDescriptorType, MemberDescriptorType):
            attributes = found.__get__(value)
            return attributes if type(attributes) is dict else {}
    return {}


def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    found: dict[str, MemberDescriptorType] = {}
    for base in reversed(kind.__mro__):
        if "__slots__" in vars(base):
            own = vars(base).items()
            found |= {k: member for k, member in own if type(member) is MemberDescriptorType}
    return found
