"""Which node of one graph is which node of another, by structure and not by name.

Nodes are matched from strong evidence to weak.  A *cone key* of a node stands for everything
upstream of it (or downstream); two nodes with one key compute the same from the same.  In a key, a
pair that is matched already counts as one thing, so each round reaches one edit further.  Between
edits, where both cones have changed, neighbourhoods of a few steps are compared, as in the
Weisfeiler-Leman test, and equal ones are matched in order.  Each round is linear in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.graph import Node
from pytest_fxregion.snapshots.lines import changed_blocks

_NUMBER = re.compile(r"_?\d+(?=_|$)")
_MANY_USERS = 64  # a value used more often than this suggests no partner for its users


@dataclass(frozen=True)
class Matching:
    """Pairs of positions, and whether a pair is the same operation.

    Attributes:
        to_new: for each old node the new one, or -1.
        to_old: for each new node the old one, or -1.
        replaced: old nodes whose partner does something else in the same place.

    """

    to_new: Sequence[int]
    to_old: Sequence[int]
    replaced: frozenset[int]


class Wiring:
    """Edges of a graph by position: ``inputs[i]`` in order, ``users[i]`` as (node, argument)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.inputs: list[tuple[int, ...]] = []
        self.users: list[list[tuple[int, int]]] = [[] for _ in nodes]
        defined: dict[str, int] = {}
        for i, node in enumerate(nodes):
            inputs = tuple(defined[name] for name in node.inputs if name in defined)
            self.inputs.append(inputs)
            for position, j in enumerate(inputs):
                # An output is one more or less without any change to what its value is.
                self.users[j].append((i, 0 if node.op == "output" else position))
            defined[node.name] = i


def match(old: Wiring, new: Wiring) -> Matching:
    """Match the nodes of two graphs."""
    matcher = _Matcher(old, new)
    matcher.match_ends()
    for label in (_typed, _strict, _loose):
        matcher.use(label)
        matcher.match_cones()
        for steps in (3, 1):
            while matcher.match_neighbourhoods(steps):
                matcher.match_cones()
    matcher.match_leftovers()
    replaced = matcher.match_replaced()
    return Matching(matcher.old.partner, matcher.new.partner, frozenset(replaced))


class _Side:
    """One graph, its labels under the current rule, and what is matched."""

    def __init__(self, wiring: Wiring) -> None:
        self.nodes = wiring.nodes
        self.inputs = wiring.inputs
        self.users = wiring.users
        self.partner = [-1] * len(wiring.nodes)
        self.token = [0] * len(wiring.nodes)  # of a matched node: one number for both of the pair
        self.labels: list[int] = []

    def upstream_keys(self) -> list[int]:
        keys: list[int] = []
        for label, token, inputs in zip(self.labels, self.token, self.inputs, strict=True):
            keys.append(token or hash((label, *[keys[j] for j in inputs])))
        return keys

    def downstream_keys(self) -> list[int]:
        keys = [0] * len(self.labels)
        for i in range(len(self.labels) - 1, -1, -1):
            users = sorted((position, keys[user]) for user, position in self.users[i])
            keys[i] = self.token[i] or hash((self.labels[i], *users))
        return keys

    def neighbourhood_keys(self, steps: int) -> list[int]:
        keys = [token or label for token, label in zip(self.token, self.labels, strict=True)]
        for _ in range(steps):
            before = keys
            keys = [
                token
                or hash(
                    (
                        before[i],
                        *[before[j] for j in self.inputs[i]],
                        *sorted([(position, before[user]) for user, position in self.users[i]]),
                    )
                )
                for i, token in enumerate(self.token)
            ]
        return keys

    def unmatched(self) -> list[int]:
        return [i for i, partner in enumerate(self.partner) if partner < 0]


class _Matcher:
    def __init__(self, old: Wiring, new: Wiring) -> None:
        self.old = _Side(old)
        self.new = _Side(new)

    def use(self, rule: Callable[[Node], tuple[object, ...]]) -> None:
        for side in (self.old, self.new):
            side.labels = [hash(rule(node)) for node in side.nodes]

    def pair(self, i: int, j: int) -> None:
        self.old.partner[i] = j
        self.new.partner[j] = i
        self.old.token[i] = self.new.token[j] = -(i + 2)

    def match_ends(self) -> None:
        """Match outputs, then placeholders: in order, those with the same uses first."""
        outputs = [
            [i for i, n in enumerate(s.nodes) if n.op == "output"] for s in (self.old, self.new)
        ]
        for i, j in zip(*outputs, strict=False):
            self.pair(i, j)
        self.use(_typed)
        for steps in (3, 1, 0):
            self._align_placeholders(steps)
        self.use(_loose)
        self._align_placeholders(0)

    def _align_placeholders(self, steps: int) -> None:
        keys = [side.neighbourhood_keys(steps) for side in (self.old, self.new)]
        places = [
            [i for i, node in enumerate(side.nodes) if node.op == "placeholder"]
            for side in (self.old, self.new)
        ]
        self._align(places[0], places[1], keys[0], keys[1])

    def match_cones(self) -> None:
        """Match by whole cones until nothing is gained: both of them, upstream, downstream."""
        gained = True
        while gained:
            up = self.old.upstream_keys(), self.new.upstream_keys()
            down = self.old.downstream_keys(), self.new.downstream_keys()
            both = tuple(list(zip(*keys, strict=True)) for keys in zip(up, down, strict=True))
            gained = self._join(both[0], both[1], repeated=True)
            # After this, keys of one direction are out of date, which only makes them less equal.
            gained |= self._join(up[0], up[1], repeated=False)
            if not gained:
                gained = self._join(down[0], down[1], repeated=False)

    def _join(self, old: Sequence[object], new: Sequence[object], *, repeated: bool) -> bool:
        """Match unmatched nodes with equal keys; ``repeated``: also k of them with k, in order."""
        groups: dict[object, tuple[list[int], list[int]]] = {}
        for i in self.old.unmatched():
            groups.setdefault(old[i], ([], []))[0].append(i)
        if not groups:
            return False
        for j in self.new.unmatched():
            if new[j] in groups:
                groups[new[j]][1].append(j)
        gained = False
        for left, right in groups.values():
            if len(left) == len(right) and (repeated or len(left) == 1):
                for i, j in zip(left, right, strict=True):
                    self.pair(i, j)
                gained = True
        return gained

    def match_neighbourhoods(self, steps: int) -> bool:
        """Match, in order, nodes that look the same within a few steps."""
        if not self.old.unmatched() or not self.new.unmatched():
            return False
        return self._align(
            range(len(self.old.nodes)),
            range(len(self.new.nodes)),
            self.old.neighbourhood_keys(steps),
            self.new.neighbourhood_keys(steps),
        )

    def match_leftovers(self) -> None:
        """Match, in order, what does the same and has at least one neighbour in common."""
        for label in (_typed, _strict, _loose):
            self.use(label)
            while self._align(
                range(len(self.old.nodes)),
                range(len(self.new.nodes)),
                self.old.neighbourhood_keys(0),
                self.new.neighbourhood_keys(0),
                related=True,
            ):
                self.match_cones()

    def match_replaced(self) -> list[int]:
        """Match what is left if it takes the same and gives to the same; return the old nodes."""
        replaced: list[int] = []
        gained = True
        while gained:
            gained = False
            for i in self.old.unmatched():
                best = max(
                    ((self._agreement(i, j), -j) for j in self._candidates(i)), default=(0.0, 0)
                )
                if best[0] >= 0.5:
                    self.pair(i, -best[1])
                    replaced.append(i)
                    gained = True
        return replaced

    def _align(
        self,
        old: Sequence[int],
        new: Sequence[int],
        old_keys: Sequence[int],
        new_keys: Sequence[int],
        related: bool = False,
    ) -> bool:
        """Match nodes that a line diff of the keys takes for unchanged."""
        left, right = [old_keys[i] for i in old], [new_keys[j] for j in new]
        gained = False
        at = (0, 0)
        ends = [(len(left), len(left), len(right), len(right))]
        for i1, i2, j1, j2 in [*changed_blocks(left, right), *ends]:
            for i, j in zip(old[at[0] : i1], new[at[1] : j1], strict=True):
                if self.old.partner[i] < 0 and (not related or self._related(i, j)):
                    self.pair(i, j)
                    gained = True
            at = (i2, j2)
        return gained

    def _related(self, i: int, j: int) -> bool:
        """Say whether two nodes have a matched neighbour in common, or no neighbours at all."""
        inputs, users = self._shared(i, j)
        return bool(inputs or users) or not (self.old.inputs[i] or self.old.users[i])

    def _agreement(self, i: int, j: int) -> float:
        """Return the share of edges that two nodes have in common; 0 if they only share a side."""
        inputs, users = self._shared(i, j)
        old_inputs, old_users = len(self.old.inputs[i]), len(self.old.users[i])
        new_inputs, new_users = len(self.new.inputs[j]), len(self.new.users[j])
        if (not inputs and old_inputs) or (not users and old_users):
            return 0.0
        edges = max(old_inputs, new_inputs) + max(old_users, new_users)
        return (inputs + users) / edges if edges else 0.0

    def _shared(self, i: int, j: int) -> tuple[int, int]:
        partner = self.old.partner
        new_inputs, new_users = self.new.inputs[j], set(self.new.users[j])
        inputs = sum(
            k < len(new_inputs) and partner[value] == new_inputs[k]
            for k, value in enumerate(self.old.inputs[i])
        )
        users = sum((partner[user], k) in new_users for user, k in self.old.users[i])
        return inputs, users

    def _candidates(self, i: int) -> Iterable[int]:
        """Return unmatched new nodes that share a neighbour with an old one."""
        found: dict[int, None] = {}
        for value in self.old.inputs[i]:
            twin = self.old.partner[value]
            if twin >= 0 and len(self.new.users[twin]) <= _MANY_USERS:
                found.update(dict.fromkeys(user for user, _ in self.new.users[twin]))
        for user, _ in self.old.users[i]:
            twin = self.old.partner[user]
            if twin >= 0:
                found.update(dict.fromkeys(self.new.inputs[twin][:_MANY_USERS]))
        kind = self.old.nodes[i].op
        return [j for j in found if self.new.partner[j] < 0 and self.new.nodes[j].op == kind]


def stem(name: str) -> str:
    """Return a name without the numbers that make it unique: ``mul`` for ``mul_3``."""
    return _NUMBER.sub("", name)


def _family(node: Node) -> tuple[str, str]:
    if node.op == "placeholder":
        return node.op, stem(node.name)
    if node.op == "get_attr" or "." not in node.target:  # a subgraph's name, a region's call
        return node.op, stem(node.target)
    return node.op, node.target


def _typed(node: Node) -> tuple[object, ...]:
    return (*_family(node), node.literal, node.type)


def _strict(node: Node) -> tuple[object, ...]:
    return (*_family(node), node.literal)


def _loose(node: Node) -> tuple[object, ...]:
    return _family(node)
