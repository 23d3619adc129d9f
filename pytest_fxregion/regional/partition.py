"""Which nodes are compiled together, and in which order everything runs.  Integers only.

In: a directed acyclic graph of ``n`` nodes in program order, a label (or none) for each node.
Out: *pieces*, sets of nodes of one label, such that the graph stays acyclic when each piece is
contracted to one node, over all labels together; and an order in which to run nodes and pieces.

Algorithm
---------
A partition into pieces whose quotient is acyclic is the same thing as a topological order of the
nodes cut into runs of one label, so the fewest pieces are the fewest runs.  Nodes are scheduled as
in A. B. Kahn, "Topological sorting of large networks", CACM 5(11), 1962, with a preference:

1. a node without a label runs as soon as it can;
2. else a label that waits for nothing outside itself runs whole: no order needs fewer runs of it;
3. else some label has to be cut: of a label, everything that can run now runs as one piece.

For one label this is optimal: step 3 closes piece ``k`` only when every remaining node has a path
from piece ``k`` that leaves the label, and a path that leaves it ``k`` times needs ``k + 1``
pieces.  For several labels the problem contains shortest common supersequence, which is NP-hard
(D. Maier, "The complexity of some problems on subsequences and supersequences", JACM 25(2), 1978).
There the pass is repeated, while a budget lasts, from the other end of the graph and with labels
cut in advance where each must be cut if it were alone, as late or as early as can be; of the best
result, neighbouring pieces of one label are merged where a further pass keeps them together.  A
result in which no label has more pieces than it needs alone ends the search: it is optimal.

Afterwards a node whose users are all in later pieces of its own label moves to the earliest of
them, which adds no edge between pieces: a weight's transpose stays with its layer, so that equal
layers remain equal.

Bound: a pass takes ``O(n log n + e)`` time and ``O(n + e)`` memory.  The further passes visit at
most :data:`SEARCH_BUDGET` nodes and edges in total, however many labels there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

UNLABELLED = -1

SEARCH_BUDGET = 200_000
"""Nodes and edges that are visited in search of fewer pieces than the first pass found."""


@dataclass(frozen=True)
class Plan:
    """A partition and an order to run it in.

    ``pieces``: node numbers of each piece, ascending (program order); pieces are numbered in the
    order in which they run.  ``schedule``: ``i >= 0`` is node ``i``, ``~k`` is piece ``k``.
    """

    pieces: tuple[tuple[int, ...], ...]
    schedule: tuple[int, ...]


def partition(
    inputs: Sequence[Sequence[int]],
    labels: Sequence[int],
    *,
    barriers: Sequence[int] = (),
    free_users: frozenset[int] = frozenset(),
) -> Plan:
    """Partition the labelled nodes and schedule the graph.

    ``inputs[i]``: the nodes that must run before ``i``, each smaller than ``i``, without
    repetition.  ``labels[i]``: a number from 0, or :data:`UNLABELLED`.  ``barriers``: unlabelled
    nodes that no node may cross in either direction.  ``free_users``: nodes whose use of a value
    says nothing about where it should be made (a graph's output).

    Raises :class:`ValueError` if an input does not come before its user, or a barrier is labelled.
    """
    for i, sources in enumerate(inputs):
        if any(j >= i or j < 0 for j in sources):
            raise ValueError(f"node {i} does not come after its inputs {list(sources)}")
    if barriers:
        inputs = _with_barriers(inputs, labels, barriers)
    users: list[list[int]] = [[] for _ in inputs]
    for i, sources in enumerate(inputs):
        for j in sources:
            users[j].append(i)
    piece_of, count = _fewest(inputs, users, labels)
    _pull(users, labels, piece_of, free_users)
    return _schedule(inputs, users, piece_of, count)


def _with_barriers(
    inputs: Sequence[Sequence[int]], labels: Sequence[int], barriers: Sequence[int]
) -> list[list[int]]:
    """Say each barrier with edges: at most two for a node, one from the barrier before it."""
    fenced: list[list[int]] = []
    marks = set(barriers)
    last = UNLABELLED
    for i, sources in enumerate(inputs):
        if i in marks:
            if labels[i] != UNLABELLED:
                raise ValueError(f"barrier {i} is labelled")
            fenced.append(list(range(max(last, 0), i)))
            last = i
        elif last >= 0 and last not in sources:
            fenced.append([*sources, last])
        else:
            fenced.append(list(sources))
    return fenced


def _fewest(
    inputs: Sequence[Sequence[int]], users: Sequence[Sequence[int]], labels: Sequence[int]
) -> tuple[list[int], int]:
    """The piece of each node (or :data:`UNLABELLED`) and their number, as few as can be found."""
    best = _pass(inputs, users, labels)
    visits = len(inputs) + sum(map(len, inputs))
    cut = _cut_labels(labels, best[0])
    budget = SEARCH_BUDGET - visits * (2 * len(cut) + 5)
    if len(cut) == 0 or (len(cut) == 1 and max(labels) == 0) or budget < 0:
        return best
    ends = list(range(len(inputs) - 1, -1, -1))
    back_inputs = [[ends[u] for u in reversed(users[i])] for i in ends]
    back_users = [[ends[j] for j in reversed(inputs[i])] for i in ends]
    back_labels = [labels[i] for i in ends]
    early = {label: _exits(inputs, labels, label) for label in cut}
    needed = len(set(labels) - {UNLABELLED}) - len(cut)
    needed += sum(max(exits[i] for i in _of(labels, c)) + 1 for c, exits in early.items())
    late = {label: _exits(back_inputs, back_labels, label)[::-1] for label in cut}
    by_late = _cut_in_advance(labels, late)
    by_early = _cut_in_advance(labels, early)
    for forwards, tried in (
        (True, by_late),
        (True, by_early),
        (False, by_late[::-1]),
        (False, back_labels),
    ):
        if best[1] == needed:
            return best
        if forwards:
            found = _pass(inputs, users, tried)
        else:
            found = _mirrored(_pass(back_inputs, back_users, tried))
        if found[1] < best[1]:
            best = found
    return _merge(inputs, users, labels, best, needed, budget // visits)


def _of(labels: Sequence[int], label: int) -> list[int]:
    return [i for i, other in enumerate(labels) if other == label]


def _cut_labels(labels: Sequence[int], piece_of: Sequence[int]) -> list[int]:
    """The labels that have more than one piece, ascending."""
    home: dict[int, int] = {}
    cut = set()
    for label, piece in zip(labels, piece_of, strict=True):
        if piece != UNLABELLED and home.setdefault(label, piece) != piece:
            cut.add(label)
    return sorted(cut)


def _exits(inputs: Sequence[Sequence[int]], labels: Sequence[int], label: int) -> list[int]:
    """For each node, how often a path to it leaves the label at most."""
    exits: list[int] = []
    for i, sources in enumerate(inputs):
        most = 0
        for j in sources:
            here = exits[j] + (labels[j] == label != labels[i])
            if here > most:
                most = here
        exits.append(most)
    return exits


def _cut_in_advance(labels: Sequence[int], levels: Mapping[int, Sequence[int]]) -> list[int]:
    """Labels of which those in ``levels`` are one label for each of their levels."""
    fresh: dict[tuple[int, int], int] = {}
    return [
        label
        if label == UNLABELLED
        else fresh.setdefault((label, levels[label][i] if label in levels else 0), len(fresh))
        for i, label in enumerate(labels)
    ]


def _mirrored(found: tuple[list[int], int]) -> tuple[list[int], int]:
    """Pieces that were found from the graph's other end, in the graph's own numbers."""
    piece_of, count = found
    return [k if k == UNLABELLED else count - 1 - k for k in reversed(piece_of)], count


def _merge(
    inputs: Sequence[Sequence[int]],
    users: Sequence[Sequence[int]],
    labels: Sequence[int],
    best: tuple[list[int], int],
    needed: int,
    passes: int,
) -> tuple[list[int], int]:
    """Unite successive pieces of one label where a pass then needs one piece less."""
    refused: set[tuple[int, int]] = set()  # by their first nodes, which outlive renumbering
    while passes > 0 and best[1] > needed:
        piece_of, count = best
        first: dict[int, int] = {}
        for i, k in enumerate(piece_of):
            if k != UNLABELLED:
                first.setdefault(k, i)
        previous: dict[int, int] = {}
        pair = None
        for k in sorted(first):
            label = labels[first[k]]
            before = previous.get(label)
            if before is not None and (first[before], first[k]) not in refused:
                pair = (before, k)
                break
            previous[label] = k
        if pair is None:
            break
        passes -= 1
        kept, gone = pair
        united = _pass(inputs, users, [kept if k == gone else k for k in piece_of])
        if united[1] < count:
            best = united
            refused.clear()
        else:
            refused.add((first[kept], first[gone]))
    return best


def _pass(
    inputs: Sequence[Sequence[int]], users: Sequence[Sequence[int]], labels: Sequence[int]
) -> tuple[list[int], int]:
    """One pass of the algorithm: the piece of each node (or :data:`UNLABELLED`), their number."""
    n = len(inputs)
    label_count = max(labels, default=UNLABELLED) + 1
    pending = [len(sources) for sources in inputs]
    remaining = [0] * label_count  # nodes of a label that have not run
    outside = [0] * label_count  # edges into a label from other nodes that have not run
    ready: list[list[int]] = [[] for _ in range(label_count)]
    first = [n] * label_count
    free: list[int] = []
    for i in range(n):
        label = labels[i]
        if label == UNLABELLED:
            if not pending[i]:
                free.append(i)
            continue
        remaining[label] += 1
        first[label] = min(first[label], i)
        if not pending[i]:
            ready[label].append(i)
        for j in inputs[i]:
            if labels[j] != label:
                outside[label] += 1
    whole = [(first[c], c) for c in range(label_count) if remaining[c] and not outside[c]]
    startable = [(ready[c][0], c) for c in range(label_count) if ready[c]]
    heapify(whole)
    heapify(startable)
    piece_of = [UNLABELLED] * n
    pieces = 0
    while True:
        if free:
            running, stack = UNLABELLED, free
        else:
            running = _next_label(whole, remaining) if whole else UNLABELLED
            if running == UNLABELLED:
                running = _next_label(startable, ready)
            if running == UNLABELLED:
                break
            stack = ready[running]
            ready[running] = []
        while stack:
            i = stack.pop()
            if running != UNLABELLED:
                piece_of[i] = pieces
                remaining[running] -= 1
            for u in users[i]:
                pending[u] -= 1
                label = labels[u]
                if label == running:
                    if not pending[u]:
                        stack.append(u)
                    continue
                if label == UNLABELLED:
                    if not pending[u]:
                        free.append(u)
                    continue
                outside[label] -= 1
                if not outside[label]:
                    heappush(whole, (first[label], label))
                if not pending[u]:
                    if not ready[label]:
                        heappush(startable, (u, label))
                    ready[label].append(u)
        if running != UNLABELLED:
            pieces += 1
    return piece_of, pieces


def _next_label(heap: list[tuple[int, int]], alive: Sequence[object]) -> int:
    """Pop the first label of the heap that still has something to run."""
    while heap:
        _, label = heappop(heap)
        if alive[label]:
            return label
    return UNLABELLED


def _pull(
    users: Sequence[Sequence[int]],
    labels: Sequence[int],
    piece_of: list[int],
    free_users: frozenset[int],
) -> None:
    """Move a node whose users are all in later pieces of its label to the earliest of them."""
    for i in range(len(users) - 1, -1, -1):
        here = piece_of[i]
        if here == UNLABELLED:
            continue
        target = UNLABELLED
        for u in users[i]:
            if u in free_users:
                continue
            if labels[u] != labels[i]:
                target = UNLABELLED
                break
            if target == UNLABELLED or piece_of[u] < target:
                target = piece_of[u]
        if target > here:
            piece_of[i] = target


def _schedule(
    inputs: Sequence[Sequence[int]],
    users: Sequence[Sequence[int]],
    piece_of: Sequence[int],
    count: int,
) -> Plan:
    """Run order closest to the program's: of what can run, what came first."""
    n = len(inputs)
    members: list[list[int]] = [[] for _ in range(count)]
    pending = [0] * n
    piece_pending = [0] * count
    for i in range(n):
        k = piece_of[i]
        if k == UNLABELLED:
            pending[i] = len(inputs[i])
            continue
        members[k].append(i)
        for j in inputs[i]:
            if piece_of[j] != k:
                piece_pending[k] += 1
    # A piece stands in the heap as its first node: no other entry has that number.
    heap = [i for i in range(n) if piece_of[i] == UNLABELLED and not pending[i]]
    heap += [members[k][0] for k in range(count) if members[k] and not piece_pending[k]]
    heapify(heap)
    schedule: list[int] = []
    order: list[int] = []
    done = 0
    while heap:
        i = heappop(heap)
        k = piece_of[i]
        if k == UNLABELLED:
            schedule.append(i)
            ran: Sequence[int] = (i,)
        else:
            schedule.append(~len(order))
            order.append(k)
            ran = members[k]
        done += len(ran)
        for i in ran:
            for u in users[i]:
                q = piece_of[u]
                if q == UNLABELLED:
                    pending[u] -= 1
                    if not pending[u]:
                        heappush(heap, u)
                elif q != k:
                    piece_pending[q] -= 1
                    if not piece_pending[q]:
                        heappush(heap, members[q][0])
    if done != n:
        raise AssertionError("the partition is cyclic")
    return Plan(tuple(tuple(members[k]) for k in order), tuple(schedule))
