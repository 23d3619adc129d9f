"""Find the nodes of a joint graph that sum gradients, by the structure of the autograd graph.

Comes in: the autograd graph of the traced forward, just before its backward is traced.
Goes out: the joint graph, its accumulation nodes tagged ``is_gradient_acc`` and without ``custom``.

Autograd's engine keeps one input buffer for each input of a backward node.  Where several edges
lead to one input it adds the gradients up in the order in which they arrive, each addition an
``aten.add.Tensor`` issued by the engine itself.  So the additions are known once it is known which
gradient went along which edge, and that is what :class:`AccumulationRecorder` records while the
backward is traced.  Nothing is guessed from names or stack traces: a hook's arithmetic, or a custom
Function that returns ``g + g``, lies on no such chain.

What is tagged and why: https://github.com/pytorch/pytorch/pull/167572.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch import AutogradNode, current_tracer, node_of_traced_tensor

ADD = torch.ops.aten.add.Tensor


@dataclass(frozen=True)
class Arrival:
    """One gradient that reached a backward node's input: its value, and what was traced before."""

    value: fx.Node
    traced_before: fx.Node


@dataclass
class AccumulationRecorder:
    """Records, while one backward is traced, which gradient went along which autograd edge.

    One recorder serves one joint graph, including those of higher-order operators inside it.
    """

    # The key holds the autograd node itself, so that its identity cannot be taken over by another.
    arrivals: dict[tuple[AutogradNode, int], list[Arrival]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def watch(self, roots: Sequence[AutogradNode]) -> None:
        """Hook every autograd node that is reachable from ``roots``.

        Call it when no other hook that changes gradients is going to be registered after it, while
        the tracer that will trace the backward is active.  Does nothing outside of tracing.
        """
        tracer = current_tracer()
        if tracer is None:
            return
        for node in reachable(roots):
            node.register_hook(self._record_outgoing(node, tracer))

    def _record_outgoing(self, node: AutogradNode, tracer: Any) -> Any:
        def after_backward(grad_inputs: Sequence[Any], _grad_outputs: Sequence[Any]) -> None:
            for (target, index), gradient in zip(node.next_functions, grad_inputs, strict=True):
                if target is None or gradient is None:
                    continue
                value = node_of_traced_tensor(gradient, tracer)
                if value is not None:
                    newest = next(reversed(value.graph.nodes))
                    self.arrivals[target, index].append(Arrival(value, newest))

        return after_backward

    def accumulations(self) -> list[fx.Node]:
        """Return the nodes that sum two gradients of one value, in graph order within a value."""
        found: list[fx.Node] = []
        for arrivals in self.arrivals.values():
            total = arrivals[0].value
            for arrival in arrivals[1:]:
                addition = _addition(total, arrival)
                if addition is None:
                    break
                found.append(addition)
                total = addition
        return found


def reachable(roots: Iterable[AutogradNode]) -> list[AutogradNode]:
    """Return the autograd nodes reachable from ``roots``, each once, breadth first."""
    order: list[AutogradNode] = []
    seen: set[AutogradNode] = set()
    pending = [root for root in roots if root is not None]
    while pending:
        following: list[AutogradNode] = []
        for node in pending:
            if node in seen:
                continue
            seen.add(node)
            order.append(node)
            following.extend(target for target, _ in node.next_functions if target is not None)
        pending = following
    return order


def tag_accumulations(joint_graph: fx.GraphModule, recorder: AccumulationRecorder) -> int:
    """Tag the accumulation nodes of ``joint_graph``; return how many there are.

    Every other node loses the tag it may have been given while tracing.
    """
    accumulations = set(recorder.accumulations())
    for module in joint_graph.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node in accumulations:
                node.meta["is_gradient_acc"] = True
                node.meta.pop("custom", None)
            else:
                node.meta.pop("is_gradient_acc", None)
    return len(accumulations)


def _addition(total: fx.Node, arrival: Arrival) -> fx.Node | None:
    """The engine's sum of ``total`` and the arriving gradient: the first one after its arrival."""
    operands = {total, arrival.value}
    node = arrival.traced_before.next
    while node.op != "root":
        if node.target is ADD and not node.kwargs and set(node.args) == operands:
            return node
        node = node.next
    return None
