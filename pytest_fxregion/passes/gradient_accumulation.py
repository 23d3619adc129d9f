"""Find the nodes of a joint graph that sum gradients, by the structure of the autograd graph.

Comes in: the autograd graph of the traced forward, just before its backward is traced.
Goes out: the joint graph, its accumulation nodes tagged ``is_gradient_acc`` and without ``custom``.

Autograd's engine keeps one input buffer for each input of a backward node.  Where several edges
lead to one input it adds the gradients up in the order in which they arrive, each addition an
``aten.add.Tensor`` issued by the engine itself.  So the additions are known once it is known which
gradient went along which edge, and that is what :class:`AccumulationRecorder` records while the
backward is traced.  Nothing is guessed from names or stack traces: a hook's arithmetic, or a custom
Function that returns ``g + g``, lies on no such chain.

The bodies of higher-order operators are traced before the graph that calls them and then traced
again into it, as other nodes.  Of a node's metadata ``custom`` comes along, so that is where an
accumulation is marked until all tracing is over.

What is tagged and why: https://github.com/pytorch/pytorch/pull/167572.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import get_gradient_edge

from pytest_fxregion._torch.autograd import AutogradNode, sequence_number
from pytest_fxregion._torch.tensors import inner_tensors
from pytest_fxregion._torch.tracing import current_tracer, node_of_traced_tensor
from pytest_fxregion.passes.metadata import OWN_NUMBER
from pytest_fxregion.regional.annotation import custom_of

ADD = torch.ops.aten.add.Tensor

# The key in the metadata of a node that torch itself took for an accumulation.
TORCHS_OWN = "fxregion_torchs_gradient_acc"

# The key in ``custom`` that marks an accumulation while tracing goes on.
MARK = "fxregion_gradient_accumulation"


@dataclass(frozen=True)
class Arrival:
    """One gradient that reached a backward node's input, and the node that was traced last then.

    A gradient of a tensor subclass that wraps others has several ``parts``; the engine's sum of two
    is one addition for each.  Which nodes compute them is asked when all is traced: a gradient that
    was written to in place has its node only once it has been read.
    """

    parts: tuple[torch.Tensor, ...]
    traced_before: fx.Node
    tracer: Any

    def nodes(self) -> list[fx.Node | None]:
        """Return the node that computes each part; None where that is no part of the graph."""
        return [node_of_traced_tensor(part, self.tracer) for part in self.parts]


@dataclass
class AccumulationRecorder:
    """Records, while one backward is traced, which gradient went along which autograd edge."""

    # The key holds the autograd node itself, so that its identity cannot be taken over by another.
    arrivals: dict[tuple[AutogradNode, int], list[Arrival]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def watch(
        self, outputs: Sequence[torch.Tensor], tangents: Sequence[Any], *, numbered: bool = True
    ) -> None:
        """Hook every autograd node that is reachable from ``outputs``; note their ``tangents``.

        Call it when no other hook that changes gradients is going to be registered after it, while
        the tracer that will trace the backward is active.  Does nothing outside of tracing.  If
        what is traced is not ``numbered``, as AOTAutograd does it, each node is given the sequence
        number of the autograd node that computes it.
        """
        tracer = current_tracer()
        if tracer is None:
            return
        # The engine sends the tangents out first, in this order.
        for output, tangent in zip(outputs, tangents, strict=True):
            edge = get_gradient_edge(output)
            self._arrived(edge.node, edge.output_nr, tangent, tracer)
        for node in reachable([o.grad_fn for o in outputs if o.grad_fn is not None]):
            if not numbered:
                _number(node, tracer)
            node.register_hook(self._record_outgoing(node, tracer))

    def _record_outgoing(self, node: AutogradNode, tracer: Any) -> Any:
        def after_backward(grad_inputs: Sequence[Any], _grad_outputs: Sequence[Any]) -> None:
            for (target, index), gradient in zip(node.next_functions, grad_inputs, strict=True):
                if target is not None:
                    self._arrived(target, index, gradient, tracer)

        return after_backward

    def _arrived(self, target: AutogradNode, index: int, gradient: Any, tracer: Any) -> None:
        if isinstance(gradient, torch.Tensor):
            newest = next(iter(reversed(tracer.graph.nodes)))
            self.arrivals[target, index].append(Arrival(inner_tensors(gradient), newest, tracer))

    def accumulations(self) -> list[fx.Node]:
        """Return the nodes that sum two gradients of one value, in graph order within a value."""
        found: dict[fx.Node, None] = {}
        for arrivals in self.arrivals.values():
            totals = arrivals[0].nodes()
            for arrival in arrivals[1:]:
                for part, (total, node) in enumerate(zip(totals, arrival.nodes(), strict=False)):
                    addition = _addition({total, node}, arrival.traced_before, found)
                    totals[part] = addition
                    if addition is not None:
                        found[addition] = None
        return list(found)

    def mark(self) -> None:
        """Mark the accumulations; call it when the backward has been traced."""
        for node in self.accumulations():
            node.meta["custom"] = {MARK: True}


def _number(node: AutogradNode, tracer: Any) -> None:
    """Give what an autograd node is going to compute its sequence number."""
    start: list[fx.Node] = []

    def before_backward(_gradients: Any) -> None:
        start[:] = [next(iter(reversed(tracer.graph.nodes)))]

    def after_backward(_inputs: Any, _outputs: Any) -> None:
        for traced in reversed(tracer.graph.nodes):
            if traced in start:
                break
            traced.meta.setdefault(OWN_NUMBER, traced.meta.get("seq_nr"))
            traced.meta["seq_nr"] = sequence_number(node)

    node.register_prehook(before_backward)
    node.register_hook(after_backward)


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


def tag_accumulations(joint_graph: fx.GraphModule) -> int:
    """Turn the marks in ``joint_graph`` into tags; return how many there are.

    Every other node loses the tag that torch may have given it: torch tags whatever is computed
    between two nodes of autograd's graph, and so the arithmetic of tensor hooks as well.  What
    torch tagged is kept in the node's metadata, under :data:`TORCHS_OWN`.
    """
    count = 0
    for module in joint_graph.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.meta.pop("is_gradient_acc", False):
                node.meta[TORCHS_OWN] = True
            if MARK in custom_of(node):
                node.meta["is_gradient_acc"] = True
                del node.meta["custom"]
                count += 1
    return count


def _addition(
    operands: set[fx.Node | None], traced_before: fx.Node, taken: Container[fx.Node]
) -> fx.Node | None:
    """The engine's sum of the operands: the first one after the second of them arrived.

    Two values may receive the same gradients, and each has a sum of its own.  Before an operand
    that is conjugated is added up, the addition makes a copy of it.
    """
    if None in operands:
        return None
    copied: dict[Any, Any] = {}
    node = traced_before.next
    while node.op != "root":
        if node.target is torch.ops.aten.clone.default:
            copied[node] = node.args[0]
        elif node.target is ADD and node not in taken:
            given = set(node.args)
            if operands in (given, {copied.get(operand, operand) for operand in given}):
                return node
        node = node.next
    return None
