"""What an annotation asks for: in, a node; out, its region's identity and configuration, or none.

An annotation is ``node.meta["custom"]["compile_with_inductor"]``.  A mapping may hold
``inductor_region`` (an id) and ``inductor_configs`` (patched around the compile); ``None`` and
``False`` mean *not this one*; anything else is the default region.

Where it says nothing, a call of ``torch.compiler.nested_compile_region(options=...)`` whose options
ask for Inductor is a region of its own.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.fx import Node

from pytest_fxregion._torch.inductor import (
    inductor_config_keys,
    inductor_config_type,
    nested_region_configs,
)
from pytest_fxregion.errors import AnnotationError
from pytest_fxregion.scope import ANNOTATION_KEY as ANNOTATION_KEY
from pytest_fxregion.scope import REFUSED_KEY

REGION_KEY = "inductor_region"
CONFIGS_KEY = "inductor_configs"
DEFAULT_LABEL = "default"

# Where torch keeps the options of a nested region, beside the annotations of its call.
NESTED_KEY = "nested_region_config"
NESTED_LABEL = "nested"

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Other keys of the mapping are the user's own; one that looks like ours is a slip of the pen.
_TYPO_CUTOFF = 0.8


@dataclass(frozen=True)
class Annotation:
    """A checked annotation.  Two nodes may share a piece when their ``key`` is equal."""

    key: Hashable
    label: str
    configs: Mapping[str, object] = field(hash=False, compare=False)
    configs_key: Hashable


class AnnotationReader:
    """Reads the annotations of one graph, its subgraphs included.

    Ids that are equal but cannot be hashed are compared one by one, so a reader remembers those
    that it has met.
    """

    def __init__(self) -> None:
        self._uncommon: list[object] = []
        self._read: dict[int, Annotation] = {}
        self._equal: dict[Hashable, Annotation] = {}
        self._alive: list[object] = []

    def read(self, node: Node) -> Annotation | None:
        """Return the node's annotation, or None.

        Raises :class:`AnnotationError` with ``file:line``, the wrong key and the nearest valid one.
        """
        custom = custom_of(node)
        if ANNOTATION_KEY not in custom:
            return self._nested(custom[NESTED_KEY], node) if NESTED_KEY in custom else None
        if node.op in ("placeholder", "output") or node.meta.get("is_gradient_acc"):
            return None
        value = custom[ANNOTATION_KEY]
        if value is None or value is False:
            return None
        if not isinstance(value, Mapping):
            return _DEFAULT
        # One mapping object annotates every node of its scope: read it once.
        if id(value) not in self._read:
            self._read[id(value)] = self._mapping(value, node)
            self._alive.append(value)  # so that no other mapping gets its id
        return self._read[id(value)]

    def _nested(self, options: object, node: Node) -> Annotation | None:
        """Each call is a region by itself: two of one function share what is compiled."""
        if node.target is not torch.ops.higher_order.invoke_subgraph:
            return None  # the body and the results carry the options, too
        where = source_of(node) or node.name
        is_backward = node.meta.get("partitioner_tag") == "is_backward"
        try:
            configs = nested_region_configs(options, backward=is_backward)
        except TypeError as error:
            raise AnnotationError(
                f"{where}: the options of nested_compile_region name {error}; regions are compiled "
                "with Inductor: use get_invoke_subgraph_compile_options, or none"
            ) from error
        if configs is None:
            return None
        configs = checked_configs(configs, where)
        configs_key = self._configs_key(configs)
        key = (NESTED_LABEL, node.name, configs_key)
        return Annotation(key, NESTED_LABEL, configs, configs_key)

    def _configs_key(self, configs: Mapping[str, object]) -> frozenset[Hashable]:
        return frozenset((k, self.key_of(item)) for k, item in configs.items())

    def _mapping(self, value: Mapping[object, object], node: Node) -> Annotation:
        if REFUSED_KEY in value:
            raise AnnotationError(f"{source_of(node) or node.name}: {value[REFUSED_KEY]}")
        for name in value:
            if name in (REGION_KEY, CONFIGS_KEY) or not isinstance(name, str):
                continue
            near = difflib.get_close_matches(name, (REGION_KEY, CONFIGS_KEY), 1, _TYPO_CUTOFF)
            if near:
                raise AnnotationError(
                    f"{source_of(node) or node.name}: {ANNOTATION_KEY!r} has the key {name!r}; "
                    f"did you mean {near[0]!r}?"
                )
        configs = checked_configs(value.get(CONFIGS_KEY), source_of(node) or node.name)
        config_key = self._configs_key(configs)
        key: Hashable = (DEFAULT_LABEL, config_key)
        if REGION_KEY in value:
            key = ("id", self.key_of(value[REGION_KEY]), config_key)
        if key not in self._equal:
            label = DEFAULT_LABEL
            if REGION_KEY in value:
                label = _ADDRESS.sub("", repr(value[REGION_KEY]))
            self._equal[key] = Annotation(key, label, configs, config_key)
        return self._equal[key]

    def key_of(self, value: object) -> Hashable:
        """Make a hashable stand-in; 1, True and 1.0 have different ones."""
        kind = type(value).__qualname__
        if isinstance(value, (list, tuple)):
            return (kind, *map(self.key_of, value))
        if isinstance(value, Mapping):
            return (kind, frozenset((self.key_of(k), self.key_of(v)) for k, v in value.items()))
        if isinstance(value, (set, frozenset)):
            return (kind, frozenset(map(self.key_of, value)))
        try:
            hash(value)
        except TypeError:
            for i, other in enumerate(self._uncommon):
                if type(other) is type(value) and bool(other == value):
                    return (kind, "compared", i)
            self._uncommon.append(value)
            return (kind, "compared", len(self._uncommon) - 1)
        return (kind, value)


_NO_CUSTOM: Mapping[str, object] = {}
_NO_CONFIGS: frozenset[Hashable] = frozenset()
_DEFAULT = Annotation((DEFAULT_LABEL, _NO_CONFIGS), DEFAULT_LABEL, {}, _NO_CONFIGS)


def custom_of(node: Node) -> Mapping[str, object]:
    """Return ``node.meta["custom"]``; empty where there is none, or a thing that is no mapping."""
    custom = node.meta.get("custom")
    return custom if isinstance(custom, Mapping) else _NO_CUSTOM


def checked_configs(configs: object, where: str) -> dict[str, object]:
    """Return what is patched around a compile; raises for what ``torch._inductor.config`` refuses.

    The :class:`~pytest_fxregion.errors.AnnotationError` begins with ``where``.
    """
    if configs is None:
        return {}
    if not isinstance(configs, Mapping):
        raise AnnotationError(
            f"{where}: {CONFIGS_KEY!r} must be a mapping of torch._inductor.config names to "
            f"values, not {type(configs).__name__}: {configs!r}"
        )
    known = inductor_config_keys()
    for key, value in configs.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AnnotationError(
                f"{where}: {CONFIGS_KEY!r} has the key {key!r}, which torch._inductor.config "
                f"does not know{hint}"
            )
        expected = inductor_config_type(key)
        if expected and not isinstance(value, expected):
            names = " or ".join(sorted(kind.__name__ for kind in expected))
            raise AnnotationError(
                f"{where}: {CONFIGS_KEY!r} sets {key!r} to {value!r} "
                f"({type(value).__name__}); torch._inductor.config wants {names}"
            )
    return dict(configs)


def source_of(node: Node) -> str | None:
    """Return ``path:line`` of the code that made the node.

    It is the innermost frame of its stack trace that is outside of torch; if all are torch's, the
    innermost.  None if there is no frame.
    """
    trace = node.meta.get("stack_trace")
    frames = _FRAME.findall(trace) if isinstance(trace, str) else []
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH_FOLDER)]
    return ":".join((outside or frames)[-1]) if frames else None


def sources_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the nodes' sources, each once, in order of appearance."""
    return tuple(dict.fromkeys(s for node in nodes if (s := source_of(node)) is not None))
