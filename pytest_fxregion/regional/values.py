"""What each node of a graph computes, without computing it.

A traced graph's nodes carry their value as a fake tensor or symbolic number in ``meta["val"]``.
Some do not: attributes, nodes of a graph traced with real tensors (each value of which has a fake
mode of its own), nodes that a pass added.  Those get a value here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node, map_arg

from pytest_fxregion._torch import FakeTensor, FakeTensorMode, new_fake_mode


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

    ``fake_mode`` is taken where the nodes have none, or several.  Calling it with a node gives the
    node's value, or None if nothing is known of it.
    """

    def __init__(
        self, module: GraphModule, nodes: Sequence[Node], fake_mode: FakeTensorMode | None
    ) -> None:
        mode = fake_mode_of(nodes)
        self._rebase = mode is None
        self.fake_mode = mode or fake_mode or new_fake_mode()
        self._module = module
        self._made: dict[Node, object] = {}

    def __call__(self, node: Node) -> object:
        """Return the value of ``node``."""
        if node in self._made:
            return self._made[node]
        value = node.meta.get("val")
        if value is None and node.op == "get_attr":
            value = attribute_of(self._module, str(node.target))
        elif value is None and node.op == "call_function":
            value = self._propagated(node)
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor):
                if not self._rebase:
                    return value
            elif value.is_nested:
                return value
            value = self._in_mode(value)
        self._made[node] = value
        return value

    def _propagated(self, node: Node) -> object:
        """Return what the operator makes of its arguments' values; None if that can't be said."""
        args, kwargs = map_arg((node.args, node.kwargs), self.__call__)  # type: ignore[arg-type]
        try:
            with self.fake_mode:
                return node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # whatever an operator may raise on arguments that are not known
            return None

    def _in_mode(self, value: torch.Tensor) -> torch.Tensor:
        if not isinstance(value, FakeTensor):
            return self.fake_mode.from_tensor(value, static_shapes=True)
        with self.fake_mode:
            return torch.empty_strided(
                value.shape,
                value.stride(),
                dtype=value.dtype,
                device=value.device,
                requires_grad=value.requires_grad,
            )
