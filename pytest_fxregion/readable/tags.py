"""A node's metadata in, the lines of its tags out: region, annotations, checkpointing, sums."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from pytest_fxregion._torch.inductor import nested_region_configs
from pytest_fxregion.readable.counters import COUNTED_ANNOTATIONS, Counters
from pytest_fxregion.readable.source import SourceLines
from pytest_fxregion.readable.values import sorted_items, stable_text

REGION_KEY = "compile_with_inductor"
NESTED_KEY = "nested_region_config"

_PLAIN_KEY = re.compile(r"[\w.\-]+")

# A user's own key of one of these names is written in quotes, so that no line has two meanings.
_OWN_NAMES = frozenset(
    {"ac_graph_id", "custom", "file", "inductor_configs", "recompute", "region", "value"}
)


class Tags:
    """Writes the tags of one text's nodes.

    ``ac_graph_id`` is numbered by ``counters``: torch counts checkpointed calls over the whole
    process (pytorch#167735).  ``sources`` knows the folder whose path is left out of values.
    ``additional`` are keys of metadata that are shown, too.
    """

    def __init__(
        self, counters: Counters, sources: SourceLines, additional: Sequence[str] = ()
    ) -> None:
        self._counters = counters
        self._sources = sources
        self._additional = tuple(additional)

    def lines(self, node: fx.Node) -> list[str]:
        """Return the tags of ``node`` in a fixed order, one line each, without comment marks."""
        meta = node.meta
        custom = meta.get("custom")
        lines = [] if custom is None else self._annotation_lines(custom, _is_backward(node))
        checkpoint = self._checkpoint_line(meta.get("ac_graph_id"), meta.get("recompute"))
        if checkpoint is not None:
            lines.append(checkpoint)
        if meta.get("is_gradient_acc"):
            lines.append("gradient accumulation (is_gradient_acc)")
        for key in self._additional:
            if key in meta:
                lines.append(self._sources.without_root(_line(key, meta[key])))
        return lines

    def _annotation_lines(self, custom: object, is_backward: bool) -> list[str]:
        if not isinstance(custom, Mapping):
            lines = [f"custom: {stable_text(custom)}"]
        else:
            nested = _nested_lines(custom.get(NESTED_KEY), is_backward)
            lines = _region_lines(custom[REGION_KEY]) if REGION_KEY in custom else nested
            for key, value in sorted_items(custom):
                if key == REGION_KEY or (key == NESTED_KEY and nested):
                    continue
                if key in COUNTED_ANNOTATIONS and type(value) is int:
                    value = self._counters.number(key, value)
                lines.append(_line(key, value))
        return [self._sources.without_root(line) for line in lines]

    def _checkpoint_line(self, ac_graph_id: object, recompute: object) -> str | None:
        policy = recompute.name if isinstance(recompute, enum.Enum) else stable_text(recompute)
        if ac_graph_id is None:
            return None if recompute is None else f"recompute: {policy}"
        number = self._counters.number("ac_graph_id", stable_text(ac_graph_id))
        return f"ac_graph_id: {number}" + ("" if recompute is None else f" - {policy}")


def _is_backward(node: fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward"


def _nested_lines(options: object, is_backward: bool) -> list[str]:
    """Write the options of a nested region; nothing if they do not ask for Inductor.

    Decompositions and the partitioner have done their work: the graph shows it.
    """
    if options is None:
        return []
    try:
        configs = nested_region_configs(options, backward=is_backward)
    except TypeError:  # another compiler
        return []
    if configs is None:
        return []
    return ["region: nested", *([f"inductor_configs: {stable_text(configs)}"] if configs else [])]


def _region_lines(region: object) -> list[str]:
    if region is None or region is False:
        return ["region: none"]
    if not isinstance(region, Mapping):
        return [f"region: {stable_text(region)}"]
    label = stable_text(region["inductor_region"]) if "inductor_region" in region else "default"
    lines = [f"region: {label}"]
    if "inductor_configs" in region:
        lines.append(f"inductor_configs: {stable_text(region['inductor_configs'])}")
    known = ("inductor_region", "inductor_configs")
    lines += [_line(key, value) for key, value in sorted_items(region) if key not in known]
    return lines


def _line(key: Any, value: object) -> str:
    plain = isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and key not in _OWN_NAMES
    return f"{key if plain else stable_text(key)}: {stable_text(value)}"
