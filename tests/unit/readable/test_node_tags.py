"""Every tag of every node is in the text, in full, above the node."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from pytest_fxregion.readable import print_readable, render


def graph_with(meta: dict[str, Any], *, on: str = "y") -> fx.GraphModule:
    """x -> y = sin(x) -> output, where the node called ``on`` has ``meta``."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.ops.aten.sin.default, (x,), name="y")
    graph.output(y)
    for node in graph.nodes:
        if node.name == on:
            node.meta.update(meta)
    return fx.GraphModule({}, graph)


def comments(meta: dict[str, Any], *, on: str = "y", root: Path | None = None) -> list[str]:
    text = render(graph_with(meta, on=on), root=root)
    ast.parse(text)
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


@pytest.mark.parametrize(
    ("region", "lines"),
    [
        (0, ["# region: 0"]),
        ("attn", ["# region: 'attn'"]),
        (True, ["# region: True"]),
        (None, ["# region: none"]),
        (False, ["# region: none"]),
        ({}, ["# region: default"]),
        ({"inductor_region": 0}, ["# region: 0"]),
        ({"inductor_region": None}, ["# region: None"]),
        ({"inductor_region": [1, {"b", "a"}]}, ["# region: [1, {'a', 'b'}]"]),
        (
            {"inductor_configs": {"b": 1, "a": {2, 1}}, "inductor_region": 1},
            ["# region: 1", "# inductor_configs: {'a': {1, 2}, 'b': 1}"],
        ),
        ({"inductor_configs": None}, ["# region: default", "# inductor_configs: None"]),
        ({"note": "x", "extra": 1}, ["# region: default", "# extra: 1", "# note: 'x'"]),
    ],
)
def test_region_of_an_annotation(region: object, lines: list[str]) -> None:
    assert comments({"custom": {"compile_with_inductor": region}}) == lines


def test_all_tags_in_one_order_whatever_the_order_of_the_annotation() -> None:
    expected = [
        "# region: 1",
        "# a: 1",
        "# b: 2",
        "# ac_graph_id: 0 - PREFER_RECOMPUTE",
        "# gradient accumulation (is_gradient_acc)",
    ]
    annotation = {"b": 2, "compile_with_inductor": {"inductor_region": 1}, "a": 1}
    for keys in (list(annotation), list(reversed(annotation))):
        meta = {
            "is_gradient_acc": True,
            "ac_graph_id": 17,
            "recompute": CheckpointPolicy.PREFER_RECOMPUTE,
            "custom": {key: annotation[key] for key in keys},
        }
        assert comments(meta) == expected


@pytest.mark.parametrize(
    ("meta", "line"),
    [
        ({"recompute": CheckpointPolicy.MUST_SAVE}, "# recompute: MUST_SAVE"),
        ({"recompute": True}, "# recompute: True"),
        ({"recompute": 1}, "# recompute: 1"),
        ({"ac_graph_id": 5}, "# ac_graph_id: 0"),
        ({"ac_graph_id": 5, "recompute": 0}, "# ac_graph_id: 0 - 0"),
        ({"custom": "tag"}, "# custom: 'tag'"),
        ({"custom": ["a", "b"]}, "# custom: ['a', 'b']"),
    ],
)
def test_tags_of_other_kinds(meta: dict[str, Any], line: str) -> None:
    assert comments(meta) == [line]


@pytest.mark.parametrize(
    "meta", [{}, {"custom": {}}, {"custom": None}, {"is_gradient_acc": False}, {"recompute": None}]
)
def test_no_tag_no_comment(meta: dict[str, Any]) -> None:
    assert comments(meta) == []


def test_tags_of_a_placeholder_name_it() -> None:
    meta = {"recompute": CheckpointPolicy.MUST_SAVE, "ac_graph_id": 3, "custom": {"k": 1}}
    assert comments(meta, on="x") == ["# x: k: 1", "# x: ac_graph_id: 0 - MUST_SAVE"]


def test_tags_of_the_output() -> None:
    assert comments({"custom": {"k": 1}}, on="output") == ["# k: 1"]


class NewLine:
    def __repr__(self) -> str:
        return "two\nlines"


@pytest.mark.parametrize(
    ("custom", "line"),
    [
        ({"k": NewLine()}, "# k: two\\nlines"),
        ({"k": "a\nb" * 30}, "# k: " + repr("a\nb" * 30)),
        ({"k\nz": 1}, "# 'k\\nz': 1"),
        ({"a key": 1}, "# 'a key': 1"),
        ({7: 1}, "# 7: 1"),
        ({"region": 1}, "# 'region': 1"),
        ({"file": "x in y: z"}, "# 'file': 'x in y: z'"),
        ({"k": {"b", "a"}}, "# k: {'a', 'b'}"),
        ({"k": lambda: None}, f"# k: {__name__}.<lambda>"),
    ],
)
def test_annotations_that_could_break_the_text(custom: dict[Any, Any], line: str) -> None:
    assert comments({"custom": custom}) == [line]


def test_values_that_differ_late_have_different_texts() -> None:
    first, second = ({"custom": {"k": "x" * 40 + end}} for end in "12")
    assert comments(first) != comments(second)


def test_objects_show_no_address() -> None:
    assert comments({"custom": {"k": NewLine}, "is_gradient_acc": False}) == [
        f"# k: {__name__}.NewLine"
    ]
    assert comments({"custom": {"k": object()}}) == ["# k: <object object>"]


def test_the_root_folder_is_left_out_of_values(tmp_path: Path) -> None:
    custom = {"path": str(tmp_path / "data" / "x.txt")}
    assert comments({"custom": custom}, root=tmp_path) == ["# path: 'data/x.txt'"]


def test_checkpoint_ids_count_from_zero_in_order_of_appearance() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    body = fx.GraphModule({}, fx.Graph())
    for number in (12, 7, 12):
        x = graph.call_function(torch.ops.aten.sin.default, (x,))
        x.meta["ac_graph_id"] = number
    inner = body.graph.placeholder("x")
    inner = body.graph.call_function(torch.ops.aten.sin.default, (inner,))
    inner.meta["ac_graph_id"] = 7
    body.graph.output(inner)
    graph.output(x)
    gm = fx.GraphModule({}, graph)
    gm.add_module("body", body)
    text = print_readable(gm, print_output=False)
    found = [line.strip() for line in text.splitlines() if "ac_graph_id" in line]
    assert found == [f"# ac_graph_id: {number}" for number in (0, 1, 0, 1)]


def test_tags_stand_above_each_node() -> None:
    gm = graph_with({"custom": {"compile_with_inductor": 0}})
    node = next(node for node in gm.graph.nodes if node.name == "y")
    with gm.graph.inserting_after(node):
        z = gm.graph.call_function(torch.ops.aten.cos.default, (node,), name="z")
    z.meta["custom"] = {"compile_with_inductor": 0}
    lines = [line.strip() for line in render(gm).splitlines()]
    assert lines[2:6] == [
        "# region: 0",
        "y = torch.ops.aten.sin.default(x);  x = None",
        "# region: 0",
        "z = torch.ops.aten.cos.default(y);  z = None",
    ]
