"""Which node of one graph is which node of another, by structure and not by name.

Nodes are matched from strong evidence to weak.  A *cone key* of a node stands for everything
upstream of it (or downstream); two nodes with one key compute the same from the same.  In a key, a
pair that is matched already counts as one thing, so each round reaches one edit further.  Between
edits, where both cones have changed, neighbourhoods of a few steps are compared, as in the
Weisfeiler-Leman test, and equal ones are matched in order.  Each round is linear in the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxregion.snapshots.graph import Node
from pytest_fxregion.snapshots.lines import changed_blocks
from pytest_fxregion.snapshots.wiring import MANY_USERS, Side

_NUMBER = re.compile(r"_?\d+(?=_|$)")
_UNLIKE = 0.3  # share of edges in common below which a pair is only kept for want of a better one
_MOST_ROUNDS = 10  # of one kind; graphs that need more are not alike


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


def match(
    old: Sequence[Node], new: Sequence[Node], known: Mapping[str, str] | None = None
) -> Matching:
    """Match the nodes of two graphs; ``known`` are names of old nodes, and of what each is now."""
    matcher = _Matcher(old, new)
    matcher.match_known(known or {})
    matcher.match_ends()
    for label in (_typed, _strict, _loose):
        if matcher.unmatched_on_both_sides():
            matcher.use(label)
            # One edit a round: neighbourhoods in between, so that many edits do not take many.
            matcher.match_cones(rounds=2)
            for steps in (3, 1):
                matcher.match_neighbourhoods(steps)
                matcher.match_cones()
    if matcher.unmatched_on_both_sides():
        matcher.match_leftovers()
    matcher.mend()
    if matcher.unmatched_on_both_sides():
        matcher.match_replaced()
        matcher.reconsider()
    replaced = (
        i
        for i, j in enumerate(matcher.old.partner)
        if j >= 0
        and old[i].target != new[j].target
        and old[i].op in {"call", "get_attr"}
        and _family(old[i]) != _family(new[j])
    )
    return Matching(matcher.old.partner, matcher.new.partner, frozenset(replaced))


class _Matcher:
    def __init__(self, old: Sequence[Node], new: Sequence[Node]) -> None:
        self.old = Side(old)
        self.new = Side(new)

    def use(self, rule: Callable[[Node], tuple[object, ...]]) -> None:
        for side in (self.old, self.new):
            side.labels = [hash(rule(node)) for node in side.nodes]

    def pair(self, i: int, j: int) -> None:
        self.old.partner[i] = j
        self.new.partner[j] = i
        self.old.token[i] = self.new.token[j] = -(i + 2)

    def unmatched_on_both_sides(self) -> bool:
        return -1 in self.old.partner and -1 in self.new.partner

    def match_known(self, known: Mapping[str, str]) -> None:
        """Match what is known to belong together."""
        places = {node.name: j for j, node in enumerate(self.new.nodes)}
        for i, node in enumerate(self.old.nodes):
            j = places.get(known.get(node.name, ""), -1)
            if j >= 0 and self.old.partner[i] < 0 and self.new.partner[j] < 0:
                self.pair(i, j)

    def match_ends(self) -> None:
        """Match outputs, then placeholders: in order, those with the same uses first.

        Weights of one shape change places when the lines do that use them first, so what the same
        lines use is looked for before all else.
        """
        outputs = [
            [i for i, n in enumerate(s.nodes) if n.op == "output"] for s in (self.old, self.new)
        ]
        for i, j in zip(*outputs, strict=False):
            if self.old.partner[i] < 0 and self.new.partner[j] < 0:
                self.pair(i, j)
        old, new = (
            [
                i
                for i, node in enumerate(side.nodes)
                if node.op == "placeholder" and side.partner[i] < 0
            ]
            for side in (self.old, self.new)
        )
        self.use(_typed)
        self._match_equal(
            {i: key for i in old if (key := self.old.lines_of_use(i))},
            {j: key for j in new if (key := self.new.lines_of_use(j))},
        )
        # Neighbourhoods are only looked at if kinds and order do not settle it.
        settled = [self.old.labels[i] for i in old] == [self.new.labels[j] for j in new]
        for steps in (0,) if settled else (3, 1, 0):
            self._align(old, new, steps)
        self.use(_loose)
        self._align(old, new, 0)

    def _match_equal(self, old: Mapping[int, object], new: Mapping[int, object]) -> None:
        """Match, in order, unmatched nodes with keys that as many of both graphs have."""
        groups: dict[object, tuple[list[int], list[int]]] = {}
        for side, (keys, matched) in enumerate(((old, self.old), (new, self.new))):
            for i, key in keys.items():
                if matched.partner[i] < 0:
                    groups.setdefault(key, ([], []))[side].append(i)
        for left, right in groups.values():
            if len(left) == len(right):
                for i, j in zip(left, right, strict=True):
                    self.pair(i, j)

    def match_cones(self, rounds: int = _MOST_ROUNDS) -> None:
        """Match by whole cones until nothing is gained, or for some rounds."""
        for _ in range(rounds if self.unmatched_on_both_sides() else 0):
            up = self.old.upstream_keys(), self.new.upstream_keys()
            down = self.old.downstream_keys(), self.new.downstream_keys()
            both = [list(zip(*keys, strict=True)) for keys in zip(up, down, strict=True)]
            claims = self._claims(both[0], both[1], repeated=True)
            if not claims:
                claims = self._settled(self._claims(*up), self._claims(*down))
            for i, j in claims:
                self.pair(i, j)
            if not claims:
                return

    def _claims(
        self, old: Sequence[object], new: Sequence[object], repeated: bool = False
    ) -> list[tuple[int, int]]:
        """Return unmatched nodes with equal keys; ``repeated``: also k of them with k, in order."""
        groups: dict[object, tuple[list[int], list[int]]] = {}
        for i in self.old.unmatched():
            groups.setdefault(old[i], ([], []))[0].append(i)
        if groups:
            for j in self.new.unmatched():
                if new[j] in groups:
                    groups[new[j]][1].append(j)
        return [
            pair
            for left, right in groups.values()
            if len(left) == len(right) and (repeated or len(left) == 1)
            for pair in zip(left, right, strict=True)
        ]

    def _settled(
        self, up: Sequence[tuple[int, int]], down: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Return the claims of one cone, the better where the other cone claims otherwise.

        One cone is weak where a chain repeats an operation: of ``cos(cos(x))`` with either ``cos``
        removed, ``cos(x)`` is left, and only its users say which one it is.
        """
        old_rivals, new_rivals = dict(down), {j: i for i, j in down}
        kept: dict[int, int] = {}
        taken: set[int] = set()
        beaten: set[tuple[int, int]] = set()
        open_: set[tuple[int, int]] = set()  # as good as another: what is matched now may tell
        for i, j in up:
            rivals = {(i, old_rivals.get(i, j)), (new_rivals.get(j, i), j)} - {(i, j)}
            fit, best = self._fit(i, j), max((self._fit(*rival) for rival in rivals), default=-1.0)
            if best < fit:
                kept[i] = j
                taken.add(j)
                beaten |= rivals
            elif best == fit:
                open_ |= rivals
        last: list[tuple[int, int]] = []
        for i, j in down:
            if i in kept or j in taken or (i, j) in beaten:
                continue
            if (i, j) in open_:
                last.append((i, j))
            else:
                kept[i] = j
                taken.add(j)
        return list(kept.items()) or last

    def _likeness(self, i: int, j: int) -> float:
        """Return the share of two nodes' edges whose other ends are a pair, or look the same."""
        edges = [
            Counter(
                [
                    *(
                        (0 if side.commutes[n] else k, side.near(value))
                        for k, value in enumerate(side.inputs[n])
                    ),
                    *((~k, side.near(user)) for user, k in side.users[n]),
                ]
            )
            for side, n in ((self.old, i), (self.new, j))
        ]
        common = sum((edges[0] & edges[1]).values())
        return common / max(edges[0].total(), edges[1].total(), 1)

    def match_neighbourhoods(self, steps: int, related: bool = False) -> bool:
        """Match, in order, nodes that look the same within a few steps."""
        if not self.unmatched_on_both_sides():
            return False
        return self._align(*self._unmatched_with_anchors(), steps, related)

    def _unmatched_with_anchors(self) -> tuple[list[int], list[int]]:
        """Return the unmatched nodes, and the pairs that stand right before or after one."""
        old = {i + step for i in self.old.unmatched() for step in (-1, 0, 1)}
        new = {j + step for j in self.new.unmatched() for step in (-1, 0, 1)}
        old = {i for i in old if 0 <= i < len(self.old.nodes)}
        new = {j for j in new if 0 <= j < len(self.new.nodes)}
        anchors = {i: j for i in old if (j := self.old.partner[i]) >= 0}
        anchors |= {i: j for j in new if (i := self.new.partner[j]) >= 0}
        return sorted(old.union(anchors)), sorted(new.union(anchors.values()))

    def match_leftovers(self) -> None:
        """Match, in order, what does the same and has something near in common."""
        for label in (_typed, _strict, _loose):
            self.use(label)
            for _ in range(_MOST_ROUNDS):
                if not self.match_neighbourhoods(0, related=True):
                    break
                self.match_cones(rounds=2)

    def mend(self) -> None:
        """Give partners to unmatched nodes that are more like them than the kin that has them."""
        for flipped in (False, True):
            side = self.new if flipped else self.old
            for lone in side.unmatched():
                for owner in side.kin(lone):
                    wanted = side.partner[owner]
                    if wanted < 0 or side.labels[owner] != side.labels[lone]:
                        continue
                    now = (wanted, owner) if flipped else (owner, wanted)
                    better = (wanted, lone) if flipped else (lone, wanted)
                    if self._fit(*better) > self._fit(*now):
                        self.part(*now)
                        self.pair(*better)
                        break

    def _fit(self, i: int, j: int) -> float:
        """Return how well two nodes go together: by their edges, and by what else they say."""
        before, after = self.old.nodes[i], self.new.nodes[j]
        same_type, same_tags = before.type == after.type, before.tags == after.tags
        return self._likeness(i, j) + 0.5 * (same_type + same_tags)

    def reconsider(self) -> None:
        """Undo pairs that have next to nothing in common but what they do, if that helps others."""
        doubtful = [
            (i, j)
            for i, j in enumerate(self.old.partner)
            if j >= 0
            and self.old.nodes[i].op == "call"
            and not self._same_inputs(i, j)
            and self._likeness(i, j) < _UNLIKE
        ]
        for i, j in doubtful:
            self.part(i, j)
        self.match_replaced()
        for i, j in doubtful:
            if self.old.partner[i] < 0 and self.new.partner[j] < 0:
                self.pair(i, j)
        self.match_replaced()

    def _same_inputs(self, i: int, j: int) -> bool:
        was, now = [self.old.partner[k] for k in self.old.inputs[i]], self.new.inputs[j]
        if self.old.commutes[i] and self.new.commutes[j]:
            return sorted(was) == sorted(now)
        return bool(was) and tuple(was) == now

    def part(self, i: int, j: int) -> None:
        self.old.part(i)
        self.new.part(j)

    def match_replaced(self) -> None:
        """Match what is left if it takes the same and gives to the same, whatever it does."""
        for _ in range(_MOST_ROUNDS):
            gained = False
            for i in self.old.unmatched():
                best = max(
                    ((self._agreement(i, j), -j) for j in self._candidates(i)), default=(0.0, 0)
                )
                if best[0] >= 0.5:
                    self.pair(i, -best[1])
                    gained = True
            if not gained:
                return

    def _align(
        self, old: Sequence[int], new: Sequence[int], steps: int, related: bool = False
    ) -> bool:
        """Match nodes whose neighbourhoods a line diff takes for unchanged lines."""
        old_keys, new_keys = self.old.neighbourhood_keys(steps), self.new.neighbourhood_keys(steps)
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
        """Say whether two nodes have something matched upstream or downstream, or have nothing."""
        if not (self.old.inputs[i] or self.old.users[i]):
            return True
        return any(
            side_old & side_new
            for side_old, side_new in zip(
                self.old.surroundings(i), self.new.surroundings(j), strict=True
            )
        )

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
        old_inputs = [partner[value] for value in self.old.inputs[i]]
        if self.old.commutes[i] and self.new.commutes[j]:
            inputs = (Counter(old_inputs) & Counter(new_inputs)).total()
        else:
            inputs = sum(one == other for one, other in zip(old_inputs, new_inputs, strict=False))
        users = sum((partner[user], k) in new_users for user, k in self.old.users[i])
        return inputs, users

    def _candidates(self, i: int) -> Iterable[int]:
        """Return unmatched new nodes that share a neighbour with an old one."""
        found: dict[int, None] = {}
        for value in self.old.inputs[i]:
            twin = self.old.partner[value]
            if twin >= 0 and len(self.new.users[twin]) <= MANY_USERS:
                found.update(dict.fromkeys(user for user, _ in self.new.users[twin]))
        for user, _ in self.old.users[i]:
            twin = self.old.partner[user]
            if twin >= 0:
                found.update(dict.fromkeys(self.new.inputs[twin][:MANY_USERS]))
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
