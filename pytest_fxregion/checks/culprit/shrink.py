"""The smallest part of a piece that still differs.  In: a body and operands; out: a part of it.

A part is made of some of the body's operations.  What they need from the others are inputs, with
the values that eager gave them on the recorded operands; what others needed from them are results.
So any choice of operations is a graph that can be compiled by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from pytest_fxregion.checks.culprit.minimal import minimal_failing
from pytest_fxregion.checks.culprit.pieces import copied
from pytest_fxregion.regional.effects import written_arguments

# Operations that belong together: one that gives several values, and those that take them out.
Unit = tuple[fx.Node, ...]


@dataclass(frozen=True)
class Part:
    """A graph by itself, the values of its inputs, and the operations of the body that it is of."""

    module: fx.GraphModule
    inputs: tuple[object, ...]
    operations: tuple[fx.Node, ...]


def whole(body: fx.GraphModule, operands: Sequence[object]) -> Part:
    """Return all of a body as a part."""
    return Part(body, tuple(operands), tuple(_operations(body)))


def shrink(
    body: fx.GraphModule, operands: Sequence[object], differs: Callable[[Part], bool]
) -> Part | None:
    """Return the smallest part that still differs; None if not even the whole body does.

    ``differs`` compiles a part and compares it with eager.  Operations are left out, then stepped
    over (their user takes their input instead), then results are left out.  Of a body that writes
    to values, whose order matters, the whole is returned.
    """
    everything = whole(body, operands)
    if not differs(everything):
        return None
    if any(written_arguments(node) for node in _operations(body)):
        return everything
    cutting = _Cutting(body, operands)
    bypassed: dict[fx.Node, fx.Node] = {}

    def fails(units: Sequence[Unit], steps: Mapping[fx.Node, fx.Node] = bypassed) -> bool:
        part = cutting.part(units, steps)
        return part is not None and differs(part)

    if not fails(cutting.units):  # the numbers in it, taken for constants, made it right
        return everything
    kept = minimal_failing(cutting.units, fails)
    for unit in list(kept):
        rest = [other for other in kept if other is not unit]
        for instead in cutting.stand_ins(unit) if rest else ():
            if fails(rest, {**bypassed, unit[0]: instead}):
                kept, bypassed[unit[0]] = rest, instead
                break
    found = cutting.part(kept, bypassed)
    assert found is not None
    if len(_results(found.module)) > 1:
        for result in found.operations:
            alone = cutting.part(kept, bypassed, only=result)
            if alone is not None and alone.operations and differs(alone):
                return alone
    return found


class _Cutting:
    """A body's operations with the values that eager gave them."""

    def __init__(self, body: fx.GraphModule, operands: Sequence[object]) -> None:
        self._body = body
        self._values = eager_values(body, operands)
        self.units = list(_units(body))

    def stand_ins(self, unit: Unit) -> Iterator[fx.Node]:
        """Yield the inputs of an operation that look like its result."""
        if len(unit) > 1:
            return
        own = self._values[unit[0]]
        for node in unit[0].all_input_nodes:
            if _look_alike(own, self._values.get(node)):
                yield node

    def part(
        self,
        units: Sequence[Unit],
        bypassed: Mapping[fx.Node, fx.Node] | None = None,
        only: fx.Node | None = None,
    ) -> Part | None:
        """Cut out ``units``; with ``only`` that result alone and what it needs.

        None if one of them takes a container from another one: only tensors can be inputs.
        """
        chosen = {node for unit in units for node in unit}
        bypassed = bypassed or {}
        graph = fx.Graph()
        new: dict[fx.Node, fx.Node] = {}
        inputs: dict[fx.Node, object] = {}
        nodes = [node for node in self._body.graph.nodes if node in chosen]
        results = [node for node in nodes if self._is_result(node, chosen, bypassed)]
        if only is not None:
            results = [node for node in results if node is only]
            nodes = _needed(nodes, results, bypassed)

        def taken(node: fx.Node) -> fx.Node:
            while node in bypassed:
                node = bypassed[node]
            return node

        for node in nodes:
            for source in map(taken, node.all_input_nodes):
                held = source.op == "get_attr"
                if source not in new and source not in chosen and not held:
                    value = self._values[source]
                    if isinstance(value, list):
                        return None
                    if isinstance(value, torch.Tensor):
                        new[source] = graph.placeholder(f"arg{len(inputs)}")
                        inputs[source] = value

        def argument(node: fx.Node) -> object:
            node = taken(node)
            if node not in new and node.op == "get_attr":
                new[node] = graph.get_attr(str(node.target))
            # A number is written into the graph.
            return new.get(node, self._values.get(node))

        for node in nodes:
            args = fx.map_arg(node.args, argument)  # type: ignore[arg-type]
            kwargs = fx.map_arg(node.kwargs, argument)  # type: ignore[arg-type]
            new[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
            if "stack_trace" in node.meta:
                new[node].meta["stack_trace"] = node.meta["stack_trace"]
        graph.output(tuple(new[node] for node in results))
        module = fx.GraphModule(self._body, graph, class_name="Region")
        return Part(module, tuple(inputs.values()), tuple(nodes))

    def _is_result(
        self, node: fx.Node, chosen: set[fx.Node], bypassed: Mapping[fx.Node, fx.Node]
    ) -> bool:
        """Whether the value is seen outside: used there, or not used at all in the part."""
        if not isinstance(self._values[node], torch.Tensor):
            return False
        users = {user for user in node.users if user in chosen or user in bypassed}
        return not users or any(user not in users for user in node.users)


def eager_values(body: fx.GraphModule, operands: Sequence[object]) -> dict[fx.Node, object]:
    """Run a body operator by operator; return what each node gave, as it was at that moment."""
    values: dict[fx.Node, object] = {}

    class Noting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> object:
            result = super().run_node(n)
            values[n] = _frozen(result)
            return result

    torch.manual_seed(0)
    with torch.no_grad():
        Noting(body, garbage_collect_values=True).run(*copied(operands))
    return values


def _frozen(value: object) -> object:
    if isinstance(value, torch.Tensor):
        (value,) = copied([value])
    elif isinstance(value, (list, tuple)):
        return [_frozen(item) for item in value]
    return value


def _operations(body: fx.GraphModule) -> Iterator[fx.Node]:
    return (n for n in body.graph.nodes if n.op not in ("placeholder", "get_attr", "output"))


def _units(body: fx.GraphModule) -> Iterator[Unit]:
    for node in _operations(body):
        if node.target is operator.getitem and node.args[0].op not in ("placeholder", "get_attr"):  # type: ignore[union-attr]
            continue
        items = [user for user in node.users if user.target is operator.getitem]
        yield (node, *items)


def _needed(
    nodes: Sequence[fx.Node], results: Sequence[fx.Node], bypassed: Mapping[fx.Node, fx.Node]
) -> list[fx.Node]:
    wanted = set(results)
    for node in reversed(nodes):
        if node in wanted:
            for source in node.all_input_nodes:
                while source in bypassed:
                    source = bypassed[source]
                wanted.add(source)
    return [node for node in nodes if node in wanted]


def _results(module: fx.GraphModule) -> Sequence[object]:
    (results,) = module.graph.output_node().args
    assert isinstance(results, (tuple, list))
    return results


def _look_alike(one: object, other: object) -> bool:
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
    )
