"""Small annotated graphs, and a compile that runs bodies as they are: milliseconds, no Inductor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxregion._torch.tensors import new_fake_mode

aten = torch.ops.aten


def region(name: object, **configs: object) -> dict[str, Any]:
    """An annotation's value: a region id and, if any, configs."""
    value: dict[str, Any] = {"inductor_region": name}
    if configs:
        value["inductor_configs"] = configs
    return value


def annotate(node: fx.Node, value: object) -> fx.Node:
    node.meta["custom"] = {"compile_with_inductor": value}
    return node


class Builder:
    """Builds a graph of aten operators on float32 tensors of one size, values included."""

    def __init__(self, *inputs: str, size: tuple[int, ...] = (4,)) -> None:
        self.graph = fx.Graph()
        self.mode = new_fake_mode()
        self._size = size
        for name in inputs:
            self._value(self.graph.placeholder(name))

    def __getitem__(self, name: str) -> fx.Node:
        named: dict[str, fx.Node] = {node.name: node for node in self.graph.nodes}
        return named[name]

    def _value(self, node: fx.Node) -> fx.Node:
        with self.mode:
            node.meta["val"] = torch.empty(self._size)
        return node

    def call(self, target: Any, *args: Any, annotation: object = None, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        fake_args, fake_kwargs = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            node.meta["val"] = target(*fake_args, **fake_kwargs)
        return node if annotation is None else annotate(node, annotation)

    def module(self, *results: fx.Node) -> fx.GraphModule:
        self.graph.output(results)
        return fx.GraphModule({}, self.graph)


def traced(fn: Callable[..., Any], *inputs: Any, marks: Mapping[str, object]) -> fx.GraphModule:
    """The graph of ``fn``, the nodes that ``marks`` names annotated."""
    gm: fx.GraphModule = make_fx(fn, tracing_mode="fake")(*inputs)
    for node in gm.graph.nodes:
        if node.name in marks:
            annotate(node, marks[node.name])
    return gm


class Compiles:
    """Stands for ``standalone_compile``: keeps what it was given, runs bodies as they are."""

    def __init__(self) -> None:
        self.bodies: list[fx.GraphModule] = []
        self.configs: list[dict[str, Any]] = []
        self.cache_tags: list[str] = []

    def __call__(self, body: fx.GraphModule, operands: Sequence[Any], **_: Any) -> Any:
        from torch._inductor import config

        self.bodies.append(body)
        self.configs.append({"epilogue_fusion": config.epilogue_fusion})
        self.cache_tags.append(torch.compiler.config.cache_key_tag)
        return lambda *args: body(*args)
