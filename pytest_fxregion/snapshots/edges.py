"""What changed about the inputs of matched nodes: two graphs and their names in, changes out.

An edge that differs only by nodes that are gone or new on it is no change of its own; nor are
operands, or terms of a sum, that only stand in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.graph import Node, commutes

_LONGEST_CHAIN = 200  # nodes in a row that are gone or new, of which one looks for the sources
_MOST_OUTPUTS = 100  # outputs that are gone or new, of which one asks which follows which
_SHOWN_TERMS = 6
_SIGNS = {"add": " + ", "mul": " * "}


class Edges:
    """Tells whether an edge differs by more than nodes that are gone or new on it."""

    def __init__(
        self, names: Mapping[str, str], removed: Sequence[Node], added: Sequence[Node]
    ) -> None:
        self.names = names
        self._removed = {node.name: node.inputs for node in removed}
        self._added = {node.name: node.inputs for node in added}

    def same(self, before: str, after: str) -> bool:
        """Say whether two inputs are the same value, but for what is told as gone or new."""
        now = self.names.get(before)
        if now == after:
            return True
        if now is None:
            sources = _boundary(before, self._removed)
            return after in self._added or after in {self.names.get(name) for name in sources}
        return after in self._added and now in _boundary(after, self._added)

    def now(self, name: str) -> str:
        """Return an old node's name as the new text has it."""
        return self.names.get(name, f"{name} (gone)")


def _boundary(name: str, lone: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the nodes that feed a chain of unmatched nodes which ends in ``name``."""
    found: set[str] = set()
    seen = {name}
    todo = [name]
    while todo and len(seen) < _LONGEST_CHAIN:
        for value in lone.get(todo.pop(), ()):
            if value not in lone:
                found.add(value)
            elif value not in seen:
                seen.add(value)
                todo.append(value)
    return found


@dataclass(frozen=True)
class Rewiring:
    """Which values a node takes, or returns, now, and which it took; by their names now."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def only_order(self) -> bool:
        """Whether they are the same values."""
        return sorted(self.before) == sorted(self.after)


def rewired(before: Node, after: Node, edges: Edges) -> Rewiring | None:
    """Return how the inputs of a matched call differ; ``None`` if they do not."""
    if len(before.inputs) != len(after.inputs):
        return None  # so do its arguments then
    pairs = list(zip(before.inputs, after.inputs, strict=True))
    pairs = [(one, other) for one, other in pairs if not edges.same(one, other)]
    if not pairs:
        return None
    was, now = (list(side) for side in zip(*pairs, strict=True))
    was = [edges.now(name) for name in was]
    if commutes(before) and commutes(after) and sorted(was) != sorted(now):
        kept = Counter(map(edges.now, before.inputs)) & Counter(after.inputs)
        was = list((Counter(map(edges.now, before.inputs)) - kept).elements())
        now = list((Counter(after.inputs) - kept).elements())
    return Rewiring(tuple(was), tuple(now))


def returned(before: Node, after: Node, edges: Edges) -> Rewiring | None:
    """Return which outputs are no longer returned (by their old names), and which are new.

    What is returned in place of another only because an operation was put behind it, or taken
    away, is left out.  With none of either, order or form differ.
    """
    straight = tuple(edges.names.get(name) for name in before.inputs)
    if before.literal == after.literal and straight == after.inputs:
        return None
    now = Counter(after.inputs)
    gone: list[str] = []
    for name in before.inputs:
        known = edges.names.get(name)
        if known is not None and now[known]:
            now[known] -= 1
        else:
            gone.append(name)
    new = list(now.elements())
    if not gone and not new:
        return Rewiring((), ())
    explained = False
    if len(gone) <= _MOST_OUTPUTS and len(new) <= _MOST_OUTPUTS:
        for name in list(gone):
            follower = next((other for other in new if edges.same(name, other)), None)
            if follower is not None:
                gone.remove(name)
                new.remove(follower)
                explained = True
    if explained and not gone and not new:
        return None
    return Rewiring(tuple(edges.names.get(name, name) for name in gone), tuple(new))


@dataclass(frozen=True)
class Reordered:
    """A sum (or product, ...) of the same terms in another order: its node, terms, and steps."""

    name: str
    before: str
    after: str
    old_steps: frozenset[str]
    new_steps: frozenset[str]


def reordered_terms(
    old: Sequence[Node], new: Sequence[Node], names: Mapping[str, str]
) -> Iterator[Reordered]:
    """Yield the chains of one commutative operation whose terms are the same in another order."""
    before, after = _Chains(old), _Chains(new)
    matched = set(names.values())
    for root in before.roots():
        twin = after.nodes.get(names.get(root.name, ""))
        if twin is None or not after.is_root(twin) or twin.target != root.target:
            continue
        was, old_steps = before.terms(root)
        now, new_steps = after.terms(twin)
        if len(old_steps) == 1 or len(was) != len(now):
            continue
        terms = [names.get(name, "") for name in was]
        unchanged = all(
            step.name in names
            and tuple([names.get(name) for name in step.inputs])
            == after.nodes[names[step.name]].inputs
            for step in old_steps
        )
        if unchanged or sorted(terms) != sorted(now):
            continue
        lone_old = Counter((s.type, s.tags) for s in old_steps if s.name not in names)
        lone_new = Counter((s.type, s.tags) for s in new_steps if s.name not in matched)
        if lone_old != lone_new:
            continue
        sign = next((_SIGNS[k] for k in _SIGNS if f".{k}." in root.target), "; ")
        yield Reordered(
            twin.name,
            *_shown(terms, now, sign),
            frozenset(step.name for step in old_steps),
            frozenset(step.name for step in new_steps),
        )


class _Chains:
    """A graph's sums of sums, and the like, where nothing else uses what is in between."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._user: dict[str, str | None] = {}  # None: several
        for node in nodes:
            for name in node.inputs:
                self._user[name] = None if name in self._user else node.name

    def _is_step(self, node: Node) -> bool:
        user = self.nodes.get(self._user.get(node.name) or "")
        return user is not None and commutes(node) and commutes(user) and user.target == node.target

    def is_root(self, node: Node) -> bool:
        return commutes(node) and not self._is_step(node)

    def roots(self) -> list[Node]:
        return [node for node in self.nodes.values() if self.is_root(node)]

    def terms(self, root: Node) -> tuple[list[str], list[Node]]:
        """Return the terms in order, and the nodes that put them together."""
        terms: list[str] = []
        steps = [root]
        todo = list(reversed(root.inputs))
        while todo:
            name = todo.pop()
            node = self.nodes.get(name)
            if node is not None and node.target == root.target and self._is_step(node):
                steps.append(node)
                todo += reversed(node.inputs)
            else:
                terms.append(name)
        return terms, steps


def _shown(was: Sequence[str], now: Sequence[str], sign: str) -> tuple[str, str]:
    """Return both orders in words: all terms, or some from the first on that differs."""
    texts = [[name.rpartition("/")[2] for name in side] for side in (was, now)]
    start = next((k for k, pair in enumerate(zip(was, now, strict=True)) if len(set(pair)) > 1), -1)
    if start < 0:
        return sign.join(texts[0][:_SHOWN_TERMS]), "the same in other steps"
    if len(was) > _SHOWN_TERMS:
        texts = [
            [*(["…"] if start else []), *side[start : start + _SHOWN_TERMS], "…"] for side in texts
        ]
    return sign.join(texts[0]), sign.join(texts[1])
