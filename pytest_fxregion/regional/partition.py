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
(D. Maier, "The complexity of some problems on subsequences and supersequences", JACM 25(2), 1978);
which label is cut in step 3 is then a choice, and small graphs are tried with several choices, from
both ends (see :func:`partition`).

Afterwards a node whose users are all in later pieces of its own label moves to the earliest of
them, which adds no edge between pieces: a weight's transpose stays with its layer, so that equal
layers remain equal.

Bound: ``O(n log n + e)`` time and ``O(n + e)`` memory for one pass; the number of passes is bounded
by a constant budget of visited nodes and edges, never less than one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

UNLABELLED = -1


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
    piece_of, count = _greedy(inputs, users, labels)
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


def _greedy(
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
