"""What is recorded of a compilation: copies of graphs, figures, sections of the snapshot."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from pytest_fxregion.capture.observer import (
    GraphCapture,
    copy_graph,
    count_operations,
    gradient_accumulations,
    recomputed,
    saved_value,
)
from pytest_fxregion.capture.record import Compilation, CompiledGraph, GraphRecord, SavedValue
from pytest_fxregion.options import STAGES
from pytest_fxregion.regional import RegionalGraph


def graph_of(*sides: str, **meta: Any) -> fx.GraphModule:
    """A graph of sines, each with the ``partitioner_tag`` of its side (empty: none)."""
    graph = fx.Graph()
    node = graph.placeholder("x")
    for side in sides:
        node = graph.call_function(torch.sin, (node,))
        node.meta |= {"partitioner_tag": side, **meta} if side else meta
    graph.output((node,))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_a_copy_stays_as_it_was() -> None:
    original = graph_of("is_forward", "is_backward", custom={"a": 1})
    copied = copy_graph(original)
    for node in original.graph.nodes:
        node.meta.clear()
    original.graph.erase_node(original.graph.output_node())
    names = [node.name for node in copied.graph.nodes]
    assert names == ["x", "sin", "sin_1", "output"]
    assert [n.meta["custom"] for n in copied.graph.nodes if n.op == "call_function"] == [
        {"a": 1},
        {"a": 1},
    ]
    (result,) = copied(torch.zeros(2))
    assert result.tolist() == [0, 0]


def test_operations_are_what_computes() -> None:
    graph = graph_of("is_forward", "is_forward")
    graph.register_buffer("constant", torch.ones(1))
    with graph.graph.inserting_before():
        graph.graph.get_attr("constant")
    assert count_operations(graph) == 2


def test_accumulations_are_named_in_graph_order() -> None:
    graph = graph_of("is_backward", "is_backward", is_gradient_acc=True)
    assert gradient_accumulations(graph) == ("sin", "sin_1")
    assert gradient_accumulations(graph_of("is_backward")) == ()


def test_recomputed_are_the_forwards_operations_in_a_backward() -> None:
    graph = graph_of("is_forward", "is_backward", "is_forward", val=torch.empty(3))
    assert recomputed(graph) == {"sin": 12, "sin_2": 12}
    assert recomputed(graph_of("", "is_backward")) == {}  # of unknown side: not taken for one


def test_a_saved_value_has_its_type_and_size() -> None:
    node = fx.Graph().placeholder("x")
    node.meta["val"] = torch.empty(3, 4, dtype=torch.bfloat16)
    saved = saved_value(node)
    assert (saved.name, saved.type, saved.size, saved.nbytes) == (
        "x",
        "bf16[3, 4][4, 1]cpu",
        "24",
        24,
    )


def record(stage: str, **values: Any) -> GraphRecord:
    return GraphRecord(
        stage=stage, text=f"{stage} text", graph=graph_of("is_forward"), node_count=1, **values
    )


SAVED = (SavedValue("sin", "f32[3][1]cpu", "12", 12), SavedValue("s0", "Sym(s0)", "8", 8))


def test_a_record_reads_as_its_text() -> None:
    assert str(record("joint")) == "joint text"
    assert record("forward", saved_for_backward=SAVED).saved_bytes == 20


def test_a_body_is_written_once_for_all_the_regions_that_share_it() -> None:
    texts = {"inductor_region_0": "body", "inductor_region_1": "other", "inductor_region_2": "body"}
    sections = list(record("forward", region_texts=texts, saved_for_backward=SAVED).sections())
    assert [(section.title, section.text) for section in sections] == [
        ("forward", "forward text"),
        (
            "forward: saved for backward",
            'sin: "f32[3][1]cpu"  12 B\ns0: "Sym(s0)"  8 B',
        ),
        ("forward: inductor_region_0, inductor_region_2", "body"),
        ("forward: inductor_region_1", "other"),
    ]


def test_only_the_stages_that_were_asked_for_are_written() -> None:
    forward = record("forward", region_texts={"r": "body"}, saved_for_backward=SAVED)
    graph = CompiledGraph(joint=record("joint"), forward=forward, backward=record("backward"))
    compilation = Compilation((graph,))

    def titles(*stages: str) -> list[str]:
        return [section.title for section in compilation.document(stages, "").sections]

    assert titles("forward") == ["forward"]
    assert titles("joint", "backward") == ["joint", "backward"]
    assert titles("forward", "saved") == ["forward", "forward: saved for backward"]
    assert titles("saved", "regions") == []
    assert titles(*STAGES) == [
        "joint",
        "forward",
        "forward: saved for backward",
        "forward: r",
        "backward",
    ]


def test_several_graphs_are_numbered() -> None:
    one = CompiledGraph(inference=record("inference"))
    document = Compilation((one, one)).document(STAGES, "torch 9 | cpu")
    assert document.provenance == "torch 9 | cpu"
    assert [s.title for s in document.sections] == ["graph 0: inference", "graph 1: inference"]
    assert Compilation().regions == ()


def test_stages_of_one_graph_count_together_and_two_graphs_do_not() -> None:
    def checkpointed(*ids: int) -> fx.GraphModule:
        graph = graph_of(*("is_forward" for _ in ids))
        called = (node for node in graph.graph.nodes if node.op == "call_function")
        for node, number in zip(called, ids, strict=True):
            node.meta["ac_graph_id"] = number
        return graph

    def shown(record: GraphRecord | None) -> list[str]:
        assert record is not None
        found = re.findall(r"ac_graph_id: (\d+)", record.text)
        ids = (n.meta["ac_graph_id"] for n in record.graph.graph.nodes if "ac_graph_id" in n.meta)
        assert found == [str(number) for number in ids]
        return found

    for _ in range(2):
        capture = GraphCapture(None, "")
        capture.joint(checkpointed(7, 8, 9))
        for stage in ("forward", "backward"):
            graph = checkpointed(9, 8)
            capture.compiled(stage, graph, RegionalGraph(graph, ()))
        stages = capture.result()
        assert shown(stages.joint) == ["0", "1", "2"]
        assert shown(stages.forward) == shown(stages.backward) == ["2", "1"]
