"""Pieces of two passes compared: what is the same, and of which kind what is not."""

from typing import Any

import torch
from torch import fx

from pytest_fxregion.regional import Region

from .outcome import Difference, compared_regions
from .reasons import FAILURES, REASONS, failure_kind, reason
from .table import page, unexplained
from .torch_pass import TorchRegion


def graph(**annotations: object) -> fx.GraphModule:
    """A chain of `sin`, `cos` and an unused `neg`; annotations by name, ``...`` for none."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    sin = graph.call_function(torch.sin, (x,), name="sin")
    cos = graph.call_function(torch.cos, (sin,), name="cos")
    graph.call_function(torch.neg, (sin,), name="neg")
    graph.output((cos,))
    for node in graph.nodes:
        if annotations.get(node.name, ...) is not ...:
            node.meta["custom"] = {"compile_with_inductor": annotations[node.name]}
    return fx.GraphModule(torch.nn.Module(), graph)


def ours(*pieces: str) -> list[Region]:
    return [_region(Region, piece) for piece in pieces]


def theirs(traced: fx.GraphModule, *pieces: str) -> list[Region]:
    return [_region(TorchRegion, piece, graph=traced) for piece in pieces]


def _region(kind: type[Region], piece: str, **more: Any) -> Region:
    nodes = tuple(piece.split())
    return kind(
        name="",
        label="",
        configs={},
        nodes=nodes,
        body=fx.GraphModule({}, fx.Graph()),
        inputs=(),
        outputs=(),
        sources=(),
        kind="",
        **more,
    )


def kinds(mine: list[Region], other: list[Region]) -> list[str]:
    return [difference.kind for difference in compared_regions("t", "forward", mine, other)]


def test_equal_pieces_in_another_order_are_no_difference() -> None:
    assert not kinds(ours("sin", "cos"), theirs(graph(), "cos", "sin"))


def test_fewer_and_more_pieces_are_told_apart() -> None:
    assert kinds(ours("sin cos"), theirs(graph(), "sin", "cos")) == ["fewer pieces"]
    assert kinds(ours("sin", "cos"), theirs(graph(), "sin cos")) == ["more pieces"]


def test_a_node_that_opted_out_is_not_counted_as_lost() -> None:
    for value in (None, False):
        traced = graph(cos=value)
        assert kinds(ours("sin"), theirs(traced, "sin cos")) == ["opted out"]
    assert kinds(ours("sin"), theirs(graph(cos=0), "sin cos")) == ["unexplained node in torch's"]


def test_a_node_that_nobody_uses_is_named_as_such() -> None:
    assert kinds(ours("sin cos"), theirs(graph(), "sin cos", "neg")) == ["unused"]


def test_what_nothing_explains_has_no_reason_and_fails_the_command() -> None:
    (found,) = compared_regions("t", "forward", ours("sin cos"), theirs(graph(), "sin"))
    assert reason(found.kind) is None
    assert unexplained([found, Difference("t", "forward", "opted out", "", "")]) == [found]
    assert "UNEXPLAINED" in page([found], torch="2.13", runs=1, graphs=2, equal=0)


def test_rows_are_in_order_whatever_order_the_tests_ran_in() -> None:
    found = [
        Difference(test, graph, "opted out", "", "")
        for test in ("a", "b")
        for graph in ("backward", "forward")
    ]
    in_order = page(found, torch="2.13", runs=2, graphs=4, equal=0)
    assert page(found[::-1], torch="2.13", runs=2, graphs=4, equal=0) == in_order


def test_every_pattern_of_a_failure_leads_to_its_own_reason() -> None:
    assert failure_kind("SomethingElse: never seen") is None
    assert not set(FAILURES) & set(REASONS)
    assert all(text.endswith(".") for text in REASONS.values())
    assert all(text.endswith(".") for _, text in FAILURES.values())
