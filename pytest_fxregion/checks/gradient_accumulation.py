"""Hold the additions of gradients in the graphs against those of eager's autograd engine.

Comes in: what arrived where while eager ran its backward, what arrived where between compiled
graphs, and the tagged nodes of the joint graphs.  Goes out: the list of disagreements, in words.

Every gradient after the first that reaches one input of one backward node is added to what is
already there.  That is what :class:`EagerAccumulations` counts, on the real engine.  A compiled
call must make the same additions, each of the same shape and dtype: inside a joint graph, or, where
dynamo made several graphs, in the engine between them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.utils.checkpoint
from torch import fx
from torch.autograd.graph import get_gradient_edge

from pytest_fxregion._torch.autograd import AutogradNode, base_of, has_gradient_edge, input_forms
from pytest_fxregion._torch.symbols import size_hint
from pytest_fxregion._torch.tensors import inner_tensors, is_known_zero
from pytest_fxregion.passes.gradient_accumulation import ADD, TORCHS_OWN, reachable
from pytest_fxregion.passes.metadata import BACKWARD, SIDE
from pytest_fxregion.regional.annotation import source_of

# What an addition looks like from outside: (dtype, shape).  A size that only running would tell is
# -1, and stands for any.
Form = tuple[torch.dtype, tuple[int, ...]]

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\s*(?P<code>.*)'
)
# Autograd nodes of operations that take several views at once.
_SEVERAL_VIEWS = re.compile(r"(Split|SplitWithSizes|Unbind)Backward")
_OWN = Path(__file__).parents[1]
_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True)
class Accumulation:
    """All gradients that one value received, ``uses`` of them, and so ``uses - 1`` additions."""

    value: str
    form: Form
    uses: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.value} ({_form_text(self.form)}): {len(self.uses)} gradients, from "
            + "; ".join(self.uses)
        )


@dataclass(frozen=True)
class Movable:
    """One addition that may be made at another value: at the base of a view that is returned.

    AOTAutograd returns the base and takes the view anew, outside of the graph.  The caller's
    gradient for the view is then added to the base's, not to what the view, or a view on the way
    to it (``views``), receives inside.  Where the view ``is_one_of_several`` that one operation
    takes, eager hands their gradients on together, and the compiled call adds up one more.
    """

    views: tuple[Form, ...]
    base: Form
    is_one_of_several: bool = False


@dataclass
class EagerAccumulations:
    """Records which gradients reach which value while the engine runs one backward."""

    root: Path | None = None
    _names: dict[int, str] = field(default_factory=dict)
    # The forms are those of all tensors that the gradient is made of: several for some subclasses.
    _arrivals: dict[tuple[AutogradNode, int], list[tuple[tuple[Form, ...], str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _watched: set[AutogradNode] = field(default_factory=set)
    _reached: list[AutogradNode] = field(default_factory=list)
    _returned_views: list[tuple[list[tuple[AutogradNode, int]], Form]] = field(default_factory=list)

    def watch_call(self, names: Mapping[int, str], outputs: Iterable[Any]) -> None:
        """Hook the autograd graph of ``outputs``; call it before the backward from all of them.

        ``names`` are those of the tensors that collect gradients, by identity.
        """
        self._names.update(names)
        roots = [o for o in outputs if isinstance(o, torch.Tensor) and has_gradient_edge(o)]
        for output in roots:  # each starts with a gradient of its own
            edge = get_gradient_edge(output)
            arrival = (_forms_of(output), "the caller, for an output")
            self._arrivals[edge.node, edge.output_nr].append(arrival)
            base = base_of(output)
            if base is not None and has_gradient_edge(base):
                end = get_gradient_edge(base)
                path = _path((edge.node, edge.output_nr), (end.node, end.output_nr))
                self._returned_views.append((path, _form_of(base)))
        for node in reachable([o.grad_fn for o in roots if o.grad_fn is not None]):
            if node not in self._watched:  # a checkpoint's backward can lead to the same nodes
                self._watched.add(node)
                node.register_hook(self._record(node))

    def _record(self, node: AutogradNode) -> Any:
        def after_backward(grad_inputs: Sequence[Any], _grad_outputs: Sequence[Any]) -> None:
            self._reached.append(node)
            for (target, index), gradient in zip(node.next_functions, grad_inputs, strict=True):
                if target is None or not isinstance(gradient, torch.Tensor):
                    continue
                if not is_known_zero(gradient):  # of what forward-mode differentiation leaves out
                    arrival = (_forms_of(gradient), self._describe(node))
                    self._arrivals[target, index].append(arrival)

        return after_backward

    def found(self) -> tuple[Accumulation, ...]:
        """Return every value that received more than one gradient, and from which some tensor does.

        A traced backward computes no others; eager's does, behind a view taken under ``no_grad``.
        """
        differentiable = self._leading_to_a_leaf()
        return tuple(
            Accumulation(self._value_name(target), form, tuple(source for _, source in arrivals))
            for (target, _), arrivals in self._arrivals.items()
            if len(arrivals) > 1 and target in differentiable
            for form in arrivals[0][0]
        )

    def _leading_to_a_leaf(self) -> set[AutogradNode]:
        before: dict[AutogradNode, list[AutogradNode]] = defaultdict(list)
        for node in self._watched:
            for target, _ in node.next_functions:
                if target is not None:
                    before[target].append(node)
        ends = [node for node, _ in self._arrivals if hasattr(node, "variable")]
        found: set[AutogradNode] = set()
        while ends:
            node = ends.pop()
            if node not in found:
                found.add(node)
                ends += before[node]
        return found

    def movable(self) -> tuple[Movable, ...]:
        """Return the additions that a compiled call may make at the base of a returned view."""
        return tuple(
            Movable(
                tuple(self._arrivals[edge][0][0][0] for edge in path if edge in self._arrivals),
                base,
                any(_SEVERAL_VIEWS.match(node.name()) for node, _ in path),
            )
            for path, base in self._returned_views
        )

    def empty(self) -> tuple[Form, ...]:
        """Return the results of compiled graphs that were run backward and got no gradient.

        Such a graph adds zeros up: between graphs a value may be handed on that nothing uses.
        """
        return tuple(
            (form.dtype, tuple(form.shape))
            for node in self._reached
            if node.name() == "CompiledFunctionBackward"
            for number, form in enumerate(input_forms(node))
            if (node, number) not in self._arrivals
        )

    def _value_name(self, node: AutogradNode) -> str:
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self._names.get(id(variable), "a tensor that is not an argument")
        return f"the result of {self._describe(node)}"

    def _describe(self, node: AutogradNode) -> str:
        operation = re.sub(r"Backward\d*$", "", node.name())
        place = source_line(_traceback(node), self.root)
        return f"{operation} at {place}" if place else operation


@contextmanager
def checkpoints_watched(watched: EagerAccumulations) -> Iterator[None]:
    """While active, ``watched`` sees into the backward of a reentrant checkpoint as well.

    For the compiled call: what dynamo does not trace, because the graph breaks in the checkpoint's
    function, is such a checkpoint there, and its sums are made in a backward of its own.
    """
    function: Any = torch.utils.checkpoint.CheckpointFunction
    backward, run = function.backward, torch.autograd.backward

    def inner(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> None:
        watched.watch_call({}, tensors)
        with patch.object(torch.autograd, "backward", run):
            run(tensors, *args, **kwargs)

    def outer(ctx: Any, *gradients: Any) -> Any:
        with patch.object(torch.autograd, "backward", inner):
            return backward(ctx, *gradients)

    with patch.object(function, "backward", staticmethod(outer)):
        yield


def disagreements(
    eager: Sequence[Accumulation],
    between_graphs: Sequence[Accumulation],
    joint_graphs: Sequence[fx.GraphModule],
    movable: Sequence[Movable] = (),
    empty: Sequence[Form] = (),
    outside: Sequence[Accumulation] = (),
    root: Path | None = None,
) -> list[str]:
    """Return, in words, each form of which eager and the compiled call add a different number.

    An addition that is ``movable`` counts where the compiled call makes it, and one of the zeros
    for an ``empty`` result not at all.  What lies ``outside`` of what is compared counts only
    where such an addition went there.
    """
    expected = Counter[Form]()
    for accumulation in eager:
        expected[accumulation.form] += len(accumulation.uses) - 1
    made = Counter[Form]()
    for accumulation in between_graphs:
        made[accumulation.form] += len(accumulation.uses) - 1
    nodes: dict[Form, list[str]] = defaultdict(list)
    for graph in joint_graphs:
        for node in tagged_nodes(graph):
            made[_form(node)] += 1
            nodes[_form(node)].append(_named(node, root))

    for graph in joint_graphs:
        for node in _returned_again(graph):
            if made[_form(node)] > expected[_form(node)]:
                made.subtract([_form(node)])

    for form in empty:
        if made[form] > expected[form]:
            made.subtract([form])

    for moved in movable:
        view = next((v for v in moved.views if expected[v] > made[v]), None)
        if made[moved.base] > expected[moved.base] and (
            view is not None or moved.is_one_of_several
        ):
            expected.subtract([view] if view is not None else [])
            expected.update([moved.base])

    elsewhere = Counter[Form]()
    for accumulation in outside:
        elsewhere[accumulation.form] += len(accumulation.uses) - 1
    for moved in movable:
        view = next((v for v in moved.views if expected[v] > made[v]), None)
        if view is not None and elsewhere[moved.base] > 0:
            elsewhere.subtract([moved.base])
            expected.subtract([view])

    _settle_unknown_sizes(expected, made)
    found = []
    for form in sorted(expected.keys() | made.keys(), key=_form_text):
        if expected[form] == made[form]:
            continue
        lines = [
            f"{_form_text(form)}: eager makes {_additions(expected[form])}, "
            f"the compiled call {_additions(made[form])}"
        ]
        lines += [f"    eager: {a}" for a in eager if a.form == form]
        lines += [f"    joint graph: {name}" for name in nodes[form]]
        found.append("\n".join(lines))
    return found


def _settle_unknown_sizes(expected: Counter[Form], made: Counter[Form]) -> None:
    """Let an addition of a size that is not known be one that eager makes and that is missing."""
    for form in [f for f in made if -1 in f[1]]:
        for other in [f for f in expected if _may_be(form, f)]:
            settled = max(min(made[form] - expected[form], expected[other] - made[other]), 0)
            made[form] -= settled
            made[other] += settled


def _may_be(form: Form, other: Form) -> bool:
    """Whether a form of unknown sizes may be another one."""
    return (
        form != other
        and form[0] == other[0]
        and len(form[1]) == len(other[1])
        and all(a in (-1, b) for a, b in zip(form[1], other[1], strict=True))
    )


def misplaced(joint_graphs: Iterable[fx.GraphModule], root: Path | None = None) -> list[str]:
    """Return, in words, each tag on a node that cannot be a sum of gradients, or is another one.

    torch tags all that is computed between two nodes of autograd's graph: the engine's sums, and
    what hooks compute.  So a tagged node that torch did not tag, where one of the same form that it
    did tag is untagged, has the other's tag.
    """
    found = []
    for graph in joint_graphs:
        nodes = list(graph.graph.nodes)
        untagged = [
            node
            for node in nodes
            if TORCHS_OWN in node.meta and not node.meta.get("is_gradient_acc") and _is_sum(node)
        ]
        for node in nodes:
            if not node.meta.get("is_gradient_acc"):
                continue
            if not _is_sum(node):
                found.append(f"{_named(node, root)} is tagged, and adds up no two gradients")
            elif TORCHS_OWN not in node.meta:
                others = [other for other in untagged if _form(other) == _form(node)]
                if others:
                    names = ", ".join(_named(other, root) for other in others)
                    found.append(
                        f"{_named(node, root)} is tagged, and was not made by autograd; {names} was"
                    )
    return found


def is_tagged_otherwise(joint_graph: fx.GraphModule) -> bool:
    """Whether torch itself tagged other additions of the graph than we did."""
    return any(
        node.target is ADD and (TORCHS_OWN in node.meta) != bool(node.meta.get("is_gradient_acc"))
        for node in joint_graph.graph.nodes
    )


def _is_sum(node: fx.Node) -> bool:
    return (
        node.target is ADD
        and len(node.args) == 2
        and all(isinstance(operand, fx.Node) for operand in node.args)
        and node.meta.get(SIDE) == BACKWARD
    )


def _named(node: fx.Node, root: Path | None) -> str:
    source = source_of(node)
    if source is None:
        return node.name
    return f"{node.name} ({source if root is None else source.removeprefix(f'{root}/')})"


def tagged_nodes(graph: fx.GraphModule) -> list[fx.Node]:
    """Return the accumulation nodes that one run of a joint graph passes, once for each time.

    Those of a nested region's body count for each call of it.  The bodies of other higher-order
    operators (``cond``, ``scan``…) do not count: in eager, too, the engine sees one node there.
    """
    found = []
    for node in graph.graph.nodes:
        if node.meta.get("is_gradient_acc"):
            found.append(node)
        if node.target is torch.ops.higher_order.invoke_subgraph:
            body = graph.get_submodule(node.args[0].target)
            assert isinstance(body, fx.GraphModule)
            found += tagged_nodes(body)
    return found


def _path(start: tuple[AutogradNode, int], end: tuple[AutogradNode, int]) -> list[Any]:
    """Return the edges from a view's to its base's, without the last; views have one source."""
    path = []
    edge: Any = start
    while edge != end and edge[0] is not None:
        path.append(edge)
        following = edge[0].next_functions
        edge = following[0] if following else (None, 0)
    return path


def _returned_again(graph: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield forward results of a joint graph that it returns more than once, each further time.

    It sums their tangents itself.  Where the caller gets one tensor for all of them, the engine has
    done so before, and the further tangents are empty.
    """
    (results,) = graph.graph.output_node().args
    seen = set()
    for node in results if isinstance(results, (tuple, list)) else ():
        # What is no tensor has no gradient: the mesh of a DTensor, say.
        if (
            isinstance(node, fx.Node)
            and node.meta.get(SIDE) != BACKWARD
            and isinstance(node.meta.get("val"), torch.Tensor)
        ):
            if node in seen:
                yield node
            seen.add(node)


def source_line(frames: Sequence[str], root: Path | None) -> str | None:
    """Return ``file:line`` of the innermost frame of the user's own, relative to ``root``."""
    for frame in reversed(frames):
        match = _FRAME.search(frame)
        if match is None:
            continue
        file = Path(match["file"])
        if file.is_relative_to(_OWN) or file.is_relative_to(_TORCH):
            continue
        shown = file.relative_to(root) if root is not None and file.is_relative_to(root) else file
        return f"{shown}:{match['line']} ({match['code'].strip()})"
    return None


def _traceback(node: AutogradNode) -> Sequence[str]:
    metadata: Any = node.metadata
    return metadata.get("traceback_", ())  # type: ignore[no-any-return]


def _form(node: fx.Node) -> Form:
    return _form_of(node.meta["val"])


def _forms_of(gradient: torch.Tensor) -> tuple[Form, ...]:
    return tuple(_form_of(part) for part in inner_tensors(gradient))


def _form_of(tensor: torch.Tensor) -> Form:
    return (tensor.dtype, tuple(size_hint(size) for size in tensor.shape))


def _form_text(form: Form) -> str:
    dtype, shape = form
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def _additions(count: int) -> str:
    return f"{count} addition" + ("" if count == 1 else "s")
