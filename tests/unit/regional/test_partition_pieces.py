"""The partition, on integers."""

from __future__ import annotations

import pytest

from pytest_fxregion.regional.partition import Plan, partition


def pieces(inputs: list[list[int]], labels: list[int], **kwargs: object) -> list[tuple[int, ...]]:
    return list(partition(inputs, labels, **kwargs).pieces)  # type: ignore[arg-type]


def test_graph_without_labels_keeps_its_order() -> None:
    assert partition([[], [0], [], [1, 2]], [-1] * 4) == Plan((), (0, 1, 2, 3))


def test_empty_graph() -> None:
    assert partition([], []) == Plan((), ())


def test_nodes_of_one_label_are_one_piece() -> None:
    assert partition([[], [0], [1]], [0, 0, 0]) == Plan(((0, 1, 2),), (~0,))


def test_unlabelled_node_beside_the_label_does_not_cut_it() -> None:
    # 1 uses 0, but nothing labelled uses 1.
    assert pieces([[], [0], [0]], [0, -1, 0]) == [(0, 2)]


def test_unlabelled_node_on_a_path_cuts_the_label() -> None:
    assert pieces([[], [0], [1]], [0, -1, 0]) == [(0,), (2,)]


def test_labels_that_need_each_other_are_cut_once() -> None:
    # a1 -> b1, b2 -> a2: whole, each would wait for the other.
    a, b = 0, 1
    found = pieces([[], [], [0], [1]], [a, b, b, a])
    assert sorted(map(sorted, found)) in ([[0], [1, 2], [3]], [[0, 3], [1], [2]])


def test_a_label_is_cut_where_it_must_be_alone() -> None:
    # One exit from label 0 on the way to 4: two pieces, and 3 need not be alone.
    assert len(pieces([[], [0], [1], [0], [2, 3]], [0, 0, -1, 0, 0])) == 2


def test_search_finds_what_the_first_pass_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0 is ready first, but belongs with 2, which waits for 1 of the other label.
    inputs, labels = [[], [], [1], [2]], [0, 1, 0, 1]
    assert pieces(inputs, labels) == [(1,), (0, 2), (3,)]
    monkeypatch.setattr("pytest_fxregion.regional.partition.SEARCH_BUDGET", 0)
    assert pieces(inputs, labels) == [(0,), (1,), (2,), (3,)]


def test_node_moves_to_the_piece_that_uses_it() -> None:
    # 1 (a weight's transpose) is ready at once, but only the second piece uses it.
    inputs = [[], [], [0], [2], [1, 3], [4, 2]]
    labels = [0, 0, -1, -1, 0, -1]
    assert pieces(inputs, labels) == [(0,), (1, 4)]


def test_use_by_the_output_does_not_hold_a_node_back() -> None:
    inputs = [[], [], [0], [2], [1, 3], [4, 1]]
    labels = [0, 0, -1, -1, 0, -1]
    assert pieces(inputs, labels, free_users=frozenset({5})) == [(0,), (1, 4)]
    assert pieces(inputs, labels) == [(0, 1), (4,)]


def test_nothing_crosses_a_barrier() -> None:
    plan = partition([[], [], [], []], [0, -1, -1, 0], barriers=[2])
    assert plan.pieces == ((0,), (3,))
    assert plan.schedule == (~0, 1, 2, ~1)


def test_successive_barriers_stay_in_order() -> None:
    plan = partition([[], [], [], []], [-1, -1, -1, 0], barriers=[0, 1])
    assert plan.schedule == (0, 1, 2, ~0)


def test_labelled_barrier_is_refused() -> None:
    with pytest.raises(ValueError, match="barrier 1 is labelled"):
        partition([[], [0]], [0, 0], barriers=[1])


def test_input_after_its_user_is_refused() -> None:
    with pytest.raises(ValueError, match="node 0 does not come after its inputs"):
        partition([[1], []], [0, 0])


def test_unlabelled_nodes_keep_their_order_where_they_can() -> None:
    plan = partition([[], [], [0], [], [2], [4, 3]], [-1, -1, 0, -1, 0, -1])
    assert [step for step in plan.schedule if step >= 0] == [0, 1, 3, 5]


def test_chain_of_alternating_labels_has_a_piece_a_run() -> None:
    n, run = 400, 10
    inputs = [[i - 1] if i else [] for i in range(n)]
    labels = [0 if (i // run) % 2 == 0 else -1 for i in range(n)]
    assert len(pieces(inputs, labels)) == n // run // 2
