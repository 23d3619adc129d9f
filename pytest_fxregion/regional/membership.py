"""Which nodes belong to a region.  In: a graph; out: an annotation for each node that does.

Mostly what the nodes' own annotations say; but an item goes with its container, a number between
nodes of one region goes with them, and what nobody uses is left alone.
"""

from __future__ import annotations

import operator

from torch.fx import GraphModule, Node

from pytest_fxregion._torch.operators import operator_under_rng_state
from pytest_fxregion.errors import AnnotationError

from .annotation import Annotation, AnnotationReader, source_of
from .effects import is_pure
from .region import ArtifactCall
from .symbols import is_arithmetic_on_sizes


def members(gm: GraphModule, reader: AnnotationReader) -> dict[Node, Annotation]:
    """Return the annotation of each node that belongs to a region.

    Raises :class:`~pytest_fxregion.errors.AnnotationError` for an annotation that cannot be used.
    """
    found: dict[Node, Annotation] = {}
    unused: list[Node] = []
    numbers: list[Node] = []
    for node in gm.graph.nodes:
        op = node.op
        if op == "get_attr" or isinstance(node.target, ArtifactCall):
            continue  # what is compiled already keeps the annotation of its nodes
        if node.target is operator.getitem:
            # Values cross a border flat: an item is taken where its container is made.
            source = node.args[0]
            if isinstance(source, Node) and source.op != "placeholder":
                if source in found:
                    found[node] = found[source]
                continue
        annotation = reader.read(node)
        if annotation is not None and op == "call_module":
            raise AnnotationError(
                f"{source_of(node) or node.name}: a region cannot hold a call of the module "
                f"{node.target!r}, whose parameters it would copy; trace the function down to "
                "operators, as torch.compile, torch.export and make_fx do"
            )
        if annotation is not None and operator_under_rng_state(node) is not None:
            continue  # AOTAutograd has no rule to trace it again, so no piece can hold it
        if annotation is not None:
            found[node] = annotation
            if not node.users:
                unused.append(node)
        elif is_arithmetic_on_sizes(node):
            numbers.append(node)
    _leave_unused(unused, found)
    _adopt(numbers, found)
    return found


def _leave_unused(unused: list[Node], found: dict[Node, Annotation]) -> None:
    """Take nodes that compute what nobody uses out of their region: there is nothing to compile."""
    dead: set[Node] = set()
    while unused:
        node = unused.pop()
        if node in found and node.users.keys() <= dead and is_pure(node):
            dead.add(node)
            del found[node]
            unused.extend(node.all_input_nodes)


def _adopt(numbers: list[Node], found: dict[Node, Annotation]) -> None:
    """Take the arithmetic on sizes that lies between nodes of one region into it.

    Tracing makes such nodes where it likes; one of them would cut the region in two.
    """
    between: dict[Node, Annotation] = {}
    for node in numbers:
        for source in node.all_input_nodes:
            annotation = found.get(source) or between.get(source)
            if annotation is not None:
                between[node] = annotation
                break
    for node in reversed(between):
        if any(found.get(user) == between[node] for user in node.users):
            found[node] = between[node]
