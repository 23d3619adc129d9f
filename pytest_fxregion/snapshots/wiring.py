"""A graph's edges by position, and the keys by which its nodes are recognised in another graph."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_fxregion.snapshots.graph import Node, commutes

MANY_USERS = 64  # a value used more often than this suggests no partner for its users
_NEAREST_STEPS = 3  # nodes that are gone or new are looked through, but not many in a row


class Side:
    """One of two graphs that are matched: its edges, what is matched so far, and keys.

    ``inputs[i]`` are the nodes that node ``i`` takes, in order; ``users[i]`` the nodes that take
    it, each with the position of the argument (0 where the order is free).  ``partner[i]`` is the
    node of the other graph, or -1; ``token[i]`` a number that both of a pair have, or 0.
    ``labels`` say what nodes do, under the rule that is in use.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.inputs: list[tuple[int, ...]] = []
        self.users: list[list[tuple[int, int]]] = [[] for _ in nodes]
        self.partner = [-1] * len(nodes)
        self.token = [0] * len(nodes)
        self.labels: list[int] = []
        self._open: Sequence[int] = range(len(nodes))  # all that are unmatched, and maybe others
        self.commutes = [commutes(node) for node in nodes]
        defined: dict[str, int] = {}
        for i, node in enumerate(nodes):
            inputs = tuple(defined[name] for name in node.inputs if name in defined)
            self.inputs.append(inputs)
            # An output is one more or less without any change to what its value is.
            free = node.op == "output" or self.commutes[i]
            for position, j in enumerate(inputs):
                self.users[j].append((i, 0 if free else position))
            defined[node.name] = i

    def upstream_keys(self) -> list[int]:
        """Return a key of each node for all that it is computed from."""
        keys = list(self.token)
        for i in self.unmatched():
            inputs = [keys[j] for j in self.inputs[i]]
            if self.commutes[i]:
                inputs.sort()
            keys[i] = hash((self.labels[i], *inputs))
        return keys

    def downstream_keys(self) -> list[int]:
        """Return a key of each node for all that is computed from it."""
        keys = list(self.token)
        for i in reversed(self.unmatched()):
            users = sorted([(position, keys[user]) for user, position in self.users[i]])
            keys[i] = hash((self.labels[i], *users))
        return keys

    def near(self, i: int) -> int:
        """Return what a node looks like to its neighbours."""
        return self.token[i] or self.labels[i]

    def neighbourhood_keys(self, steps: int) -> list[int]:
        """Return a key of each node for what it is and what lies within some steps of it."""
        keys = [token or label for token, label in zip(self.token, self.labels, strict=True)]
        unmatched = self.unmatched() if steps else []
        for _ in range(steps):
            before = list(keys)
            for i in unmatched:
                users = sorted([(position, before[user]) for user, position in self.users[i]])
                inputs = [before[j] for j in self.inputs[i]]
                if self.commutes[i]:
                    inputs.sort()
                keys[i] = hash((before[i], *inputs, *users))
        return keys

    def lines_of_use(self, i: int) -> tuple[object, ...]:
        """Return what a node is, and what is done with it in which lines; empty if not known."""
        uses = sorted(
            (self.nodes[user].source, self.nodes[user].target, position)
            for user, position in self.users[i]
        )
        return (self.labels[i], *uses) if uses and all(source for source, _, _ in uses) else ()

    def kin(self, i: int) -> list[int]:
        """Return the nodes that are joined to a node by an edge, or share an input with it."""
        found = dict.fromkeys((*self.inputs[i], *(user for user, _ in self.users[i])))
        for value in self.inputs[i]:
            found |= dict.fromkeys(user for user, _ in self.users[value][:MANY_USERS])
        return list(found)

    def surroundings(self, i: int) -> tuple[set[int], set[int]]:
        """Return the tokens of the nearest matched nodes up and down, a few steps away at most."""
        upstream, downstream = {i}, {i}
        found: tuple[set[int], set[int]] = (set(), set())
        for _ in range(_NEAREST_STEPS):
            upstream = {j for n in upstream for j in self.inputs[n]}
            downstream = {user for n in downstream for user, _ in self.users[n]}
            for near, tokens in zip((upstream, downstream), found, strict=True):
                tokens |= {self.token[n] for n in near if self.token[n]}
            upstream = {n for n in upstream if not self.token[n]}
            downstream = {n for n in downstream if not self.token[n]}
        return found

    def unmatched(self) -> list[int]:
        """Return the nodes without a partner, in order."""
        found = [i for i in self._open if self.partner[i] < 0]
        self._open = found
        return found

    def part(self, i: int) -> None:
        """Take a node's partner away."""
        self.partner[i], self.token[i] = -1, 0
        self._open = range(len(self.nodes))  # to be looked through anew
