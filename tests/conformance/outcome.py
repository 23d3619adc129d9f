"""What torch's pass makes of one run of the suite.  In: our run and torch's; out: differences."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from pytest_fxregion._torch.operators import operator_under_rng_state
from pytest_fxregion.regional import Region
from pytest_fxregion.regional.annotation import ANNOTATION_KEY
from pytest_fxregion.regional.effects import is_pure
from pytest_fxregion.regional.symbols import is_arithmetic_on_sizes
from pytest_fxregion.run import RegionRun

from .torch_pass import TorchRegion

Pieces = list[frozenset[str]]


@dataclass(frozen=True)
class Difference:
    """One difference: where, what torch's pass does, what ours does, and of which kind it is.

    ``kind`` is a key of :data:`tests.conformance.reasons.REASONS`.
    """

    test: str
    graph: str
    kind: str
    torch: str
    ours: str


def compared(test: str, ours: RegionRun, theirs: RegionRun) -> Iterator[Difference]:
    """Compare the pieces of two runs of one function, graph by graph."""
    for number, (mine, other) in enumerate(zip(ours.graphs, theirs.graphs, strict=True)):
        regions_of_torch = {r.stage: r.regions for r in other.stages()}
        for record in mine.stages():
            if record.stage == "joint":
                continue
            where = record.stage if len(ours.graphs) == 1 else f"{record.stage} {number}"
            yield from compared_regions(
                test, where, record.regions, regions_of_torch.get(record.stage, ())
            )


def compared_regions(
    test: str, where: str, ours: Sequence[Region], theirs: Sequence[Region]
) -> Iterator[Difference]:
    """Compare the pieces of one graph: which nodes are in any, then which are together."""
    mine = [frozenset(region.nodes) for region in ours]
    other = [frozenset(region.nodes) for region in theirs]
    in_mine, in_other = frozenset().union(*mine), frozenset().union(*other)
    nodes = _nodes(theirs)
    only_mine = Counter(_kind_of_addition(nodes.get(name)) for name in in_mine - in_other)
    only_other = Counter(_kind_of_omission(nodes.get(name)) for name in in_other - in_mine)
    for kind, count in sorted(only_mine.items()):
        yield Difference(test, where, kind, f"{_nodes_text(count)} outside", "in the region")
    for kind, count in sorted(only_other.items()):
        yield Difference(test, where, kind, f"{_nodes_text(count)} in a region", "outside")
    both = in_mine & in_other
    mine, other = _restricted(mine, both), _restricted(other, both)
    if Counter(mine) == Counter(other):
        return
    kind = _kind_of_cut(ours, theirs, mine, other)
    yield Difference(test, where, kind, _pieces_text(other), _pieces_text(mine))


def _kind_of_cut(
    ours: Sequence[Region], theirs: Sequence[Region], mine: Pieces, other: Pieces
) -> str:
    if len(mine) < len(other):
        return "fewer pieces"
    if len(mine) == len(other):
        return "other pieces"
    if not _is_pure(theirs):
        return "order of effects"
    if any(region.kind == "recompute" for region in ours):
        return "recomputation"
    return "more pieces"


def _is_pure(regions: Sequence[Region]) -> bool:
    """Whether pieces hold nothing but what may be moved across anything else."""
    return all(
        is_pure(node)
        for region in regions
        for node in region.body.graph.nodes
        if node.op == "call_function"
    )


def _restricted(pieces: Pieces, names: frozenset[str]) -> Pieces:
    return [kept for piece in pieces if (kept := piece & names)]


def _nodes(regions: Sequence[Region]) -> dict[str, Node]:
    """Every node of the graph that torch's regions were cut from, and of the graphs in it."""
    return {
        node.name: node
        for region in regions[:1]
        if isinstance(region, TorchRegion) and region.graph is not None
        for module in reversed(list(region.graph.modules()))
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
    }


def _kind_of_addition(node: Node | None) -> str:
    if node is None:
        return "unexplained node here"
    if node.target is operator.getitem:
        return "item"
    if is_arithmetic_on_sizes(node):
        return "size"
    return "unexplained node here"


def _kind_of_omission(node: Node | None) -> str:
    if node is None:
        return "unexplained node in torch's"
    value = (node.meta.get("custom") or {}).get(ANNOTATION_KEY, True)
    if value is None or value is False:
        return "opted out"
    if node.meta.get("is_gradient_acc"):
        return "accumulation"
    if operator_under_rng_state(node) is not None:
        return "random state"
    if not _is_used(node):
        return "unused"
    if node.target is operator.getitem:
        return "item"
    return "unexplained node in torch's"


def _is_used(node: Node) -> bool:
    return any(user.op == "output" or _is_used(user) for user in node.users)


def _nodes_text(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _pieces_text(pieces: Pieces) -> str:
    sizes = sorted((len(piece) for piece in pieces), reverse=True)
    noun = "piece" if len(pieces) == 1 else "pieces"
    return f"{len(pieces)} {noun} (of {', '.join(map(str, sizes))} nodes)" if sizes else "none"
