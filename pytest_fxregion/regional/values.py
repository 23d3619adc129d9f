"""What each node of a graph computes, without computing it.

A traced graph's nodes carry their value as a fake tensor or symbolic number in ``meta["val"]``.
Some do not: attributes, nodes of a graph traced with real tensors (each value of which has a fake
mode of its own), operators around random state, nodes that a pass added.  Those get a value here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.func import functional_call
from torch.fx import GraphModule, Node, map_arg

from pytest_fxregion._torch.tensors import FakeTensor, FakeTensorMode, new_fake_mode


def attribute_of(module: torch.nn.Module, target: str) -> object:
    """Return the attribute that a (possibly dotted) ``get_attr`` target names."""
    found: object = module
    for part in target.split("."):
        found = getattr(found, part)
    return found


def fake_mode_of(nodes: Sequence[Node]) -> FakeTensorMode | None:
    """Return the fake mode of the graph's values; None if there is none, or more than one."""
    modes = {value.fake_mode for node in nodes for value in _tensors(node.meta.get("val"))}
    return modes.pop() if len(modes) == 1 else None


def _tensors(value: object) -> list[FakeTensor]:
    if isinstance(value, FakeTensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


class GraphValues:
    """The values of one graph's nodes, all of one fake mode (:attr:`fake_mode`).

    ``fake_mode`` is taken where the nodes have none, or several; ``inputs`` where placeholders have
    no value.  Calling it with a node gives the node's value, or None if nothing is known of it.
    """

    def __init__(
        self,
        module: GraphModule,
        nodes: Sequence[Node],
        fake_mode: FakeTensorMode | None = None,
        inputs: Sequence[object] = (),
    ) -> None:
        mode = fake_mode_of(nodes)
        self._rebase = mode is None
        self.fake_mode = mode or fake_mode or new_fake_mode()
        self._module = module
        self._nodes = nodes
        self._inputs = inputs
        self._made: dict[Node, object] = {}

    def __call__(self, node: Node) -> object:
        """Return the value of ``node``."""
        value = node.meta.get("val")
        if value is not None and not self._rebase:
            return value
        if not self._made:
            self._fill()
        return self._made[node]

    def _fill(self) -> None:
        """Find a value for every node that has none of the right mode, in order."""
        inputs = iter(self._inputs)
        for node in self._nodes:
            value = node.meta.get("val")
            given = next(inputs, None) if node.op == "placeholder" else None
            if value is None:
                if node.op == "get_attr":
                    value = attribute_of(self._module, str(node.target))
                else:
                    value = given if node.op == "placeholder" else self._propagated(node)
            self._made[node] = self._in_mode(value)

    def _propagated(self, node: Node) -> object:
        """Return what the operator makes of its arguments' values; None if that can't be said."""
        args, kwargs = map_arg((node.args, node.kwargs), self._made.__getitem__)  # type: ignore[arg-type]
        call: Any = node.target
        if node.op == "call_method":
            call = getattr(args[0], call, None)
            args = args[1:]
        elif node.op == "call_module":
            module: Any = attribute_of(self._module, str(call))
            state = (*module.named_parameters(), *module.named_buffers())
            fake: Any = {name: self._in_mode(tensor) for name, tensor in state}
            args, kwargs = (args, kwargs), {}
            call = partial(functional_call, module, fake)
        try:
            with self.fake_mode:
                return call(*args, **kwargs)
        except Exception:  # whatever an operator may raise on arguments that are not known
            return None

    def _in_mode(self, value: object) -> object:
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._in_mode, value))
        if not isinstance(value, torch.Tensor) or value.is_nested:
            return value
        if not isinstance(value, FakeTensor):
            return self.fake_mode.from_tensor(value, static_shapes=True)
        if value.fake_mode is self.fake_mode:
            return value
        with self.fake_mode:
            return torch.empty_strided(
                value.shape,
                value.stride(),
                dtype=value.dtype,
                device=value.device,
                requires_grad=value.requires_grad,
            )
