"""What there is to say of a graph besides its text.  In: a graph; out: sentences naming its nodes.

Notes tell where our tags differ from torch's.  Losses tell which nodes are in no compiled region
although they were asked into one, or may have been.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import fx

from pytest_fxregion._torch.operators import HigherOrderOperator, operator_under_rng_state
from pytest_fxregion.passes.gradient_accumulation import TORCHS_OWN
from pytest_fxregion.passes.metadata import BACKWARD, SIDE, UNMATCHED
from pytest_fxregion.regional.annotation import AnnotationReader, source_of
from pytest_fxregion.regional.values import attribute_of


def joint_notes(joint_graph: fx.GraphModule, root: Path | None) -> tuple[str, ...]:
    """Say of which nodes torch's own tag of a gradient accumulation was another than ours."""
    said = {
        True: "is no gradient accumulation, though torch tags it: autograd did not add it",
        False: "is a gradient accumulation that torch does not tag: autograd added it",
    }
    return tuple(
        f"{_named(node, root)} {said[TORCHS_OWN in node.meta]}"
        for node in _nodes(joint_graph)
        if (TORCHS_OWN in node.meta) != bool(node.meta.get("is_gradient_acc"))
    )


def joint_losses(joint_graph: fx.GraphModule, root: Path | None) -> tuple[str, ...]:
    """Say of which backward nodes it is not known whether they belong to a region."""
    reader = AnnotationReader()
    if not any(reader.read(node) for node in _nodes(joint_graph)):
        return ()
    return tuple(
        f"{_named(node, root)} in the backward belongs to no operation of the forward that is "
        "known, so it takes no annotation"
        for node in _nodes(joint_graph)
        if node.meta.get(UNMATCHED)
    )


def body_losses(
    traced: fx.GraphModule | None, joint_graph: fx.GraphModule, root: Path | None
) -> tuple[str, ...]:
    """Say which operators with bodies have regions in them that the joint graph does not have.

    torch traces some bodies anew in order to differentiate them, without their annotations.
    ``traced`` is dynamo's graph.
    """
    reader = AnnotationReader()

    def is_annotated(module: fx.GraphModule, call: fx.Node) -> bool:
        return any(reader.read(node) for body in _bodies(module, call) for node in _nodes(body))

    found = []
    forward: dict[tuple[object, object], tuple[fx.GraphModule, fx.Node]] = {}
    there, kept = set(), set()
    for module, call in _calls_with_bodies(joint_graph):
        there.add(call.target)
        key = (call.target, call.meta.get("seq_nr"))
        if reader.read(call) is not None or is_annotated(module, call):
            kept.add(call.target)
        elif call.meta.get(SIDE) == BACKWARD and key in forward and is_annotated(*forward[key]):
            found.append(
                f"{_named(call, root)} is a backward whose bodies torch traces without "
                "annotations, so nothing of it is in a region"
            )
        if call.meta.get(SIDE) != BACKWARD and key[1] is not None:
            forward.setdefault(key, (module, call))
    for module, call in () if traced is None else _calls_with_bodies(traced):
        is_lost = call.target in there and call.target not in kept
        if is_lost and reader.read(call) is None and is_annotated(module, call):
            found.append(
                f"{_named(call, root)} has annotations in its body, which torch drops where it "
                "differentiates the body, so nothing of it is in a region"
            )
    return tuple(found)


def _calls_with_bodies(graph: fx.GraphModule) -> Iterator[tuple[fx.GraphModule, fx.Node]]:
    for module in graph.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                if isinstance(node.target, HigherOrderOperator) and _bodies(module, node):
                    yield module, node


def _bodies(module: fx.GraphModule, call: fx.Node) -> list[fx.GraphModule]:
    attributes = [node for node in call.all_input_nodes if node.op == "get_attr"]
    values = [attribute_of(module, str(node.target)) for node in attributes]
    return [value for value in values if isinstance(value, fx.GraphModule)]


def random_losses(graph: fx.GraphModule, root: Path | None) -> tuple[str, ...]:
    """Say which random operations of a region are left out of it because they are drawn again."""
    reader = AnnotationReader()
    found = []
    for node in _nodes(graph):
        drawn = operator_under_rng_state(node)
        if drawn is not None and reader.read(node) is not None:
            found.append(
                f"{_named(node, root)} draws with {drawn[0]} what checkpointing draws again: torch "
                "cannot compile that operator, so it runs beside its region"
            )
    return tuple(found)


def _nodes(graph: fx.GraphModule) -> Iterator[fx.Node]:
    for module in graph.modules():
        if isinstance(module, fx.GraphModule):
            yield from module.graph.nodes


def _named(node: fx.Node, root: Path | None) -> str:
    source = source_of(node)
    if source is None:
        return f"`{node.name}`"
    return f"`{node.name}` ({source if root is None else source.removeprefix(f'{root}/')})"
