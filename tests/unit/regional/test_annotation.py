"""What an annotation's value means."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from pytest_fxregion.errors import AnnotationError
from pytest_fxregion.regional.annotation import (
    Annotation,
    AnnotationReader,
    source_of,
    sources_of,
)
from tests.unit.regional.annotated_graphs import annotate

TORCHS_OWN = str(torch.nn.functional.__file__)
TRACE = """  File "/home/me/outer.py", line 3, in main
    model(x)
  File "/home/me/model.py", line 12, in forward
    h = torch.sin(x)
"""


def node_with(value: object, trace: str | None = TRACE) -> fx.Node:
    node = fx.Graph().call_function(torch.sin, ())
    if trace is not None:
        node.meta["stack_trace"] = trace
    return annotate(node, value)


def read(value: object) -> Annotation | None:
    return AnnotationReader().read(node_with(value))


def same_region(one: object, other: object) -> bool:
    reader = AnnotationReader()
    first, second = reader.read(node_with(one)), reader.read(node_with(other))
    assert first is not None
    assert second is not None
    return first.key == second.key


@pytest.mark.parametrize("value", [None, False], ids=repr)
def test_none_and_false_take_a_node_out(value: object) -> None:
    assert read(value) is None


@pytest.mark.parametrize("value", [0, 1, True, "flex", "", {}, {"mine": 1, 2: 3}], ids=repr)
def test_anything_else_is_the_default_region(value: object) -> None:
    found = read(value)
    assert found is not None
    assert found.label == "default"
    assert same_region(value, "another")


@pytest.mark.parametrize(
    "name", ["attn", 0, None, (1, "a"), [1, 2], {"a": [1]}, {1, 2}, torch.float32], ids=repr
)
def test_any_value_that_can_be_compared_is_a_region_id(name: object) -> None:
    value = {"inductor_region": name}
    found = read(value)
    assert found is not None
    assert found.label == repr(name)
    assert same_region(value, {"inductor_region": name})
    assert not same_region(value, {"inductor_region": "other"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((1, True), (1, 1.0), ((1,), [1]), ("1", 1), ((1,), (True,)), ([1], [True])),
        *(({1}, {True}), (frozenset({1}), frozenset({True})), ({"a": 1}, {"a": True})),
    ],
    ids=repr,
)
def test_ids_of_different_types_differ(one: object, other: object) -> None:
    assert not same_region({"inductor_region": one}, {"inductor_region": other})


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and other.value == self.value


def test_ids_that_cannot_be_hashed_are_compared() -> None:
    assert same_region({"inductor_region": Unhashable(1)}, {"inductor_region": Unhashable(1)})
    assert not same_region({"inductor_region": Unhashable(1)}, {"inductor_region": Unhashable(2)})


def test_label_holds_no_address() -> None:
    found = read({"inductor_region": object()})
    assert found is not None
    assert found.label == "<object object>"


def test_configs_separate_nodes_of_one_region() -> None:
    one = {"inductor_region": 0, "inductor_configs": {"epilogue_fusion": True}}
    other = {"inductor_region": 0, "inductor_configs": {"epilogue_fusion": False}}
    assert not same_region(one, other)
    assert same_region(one, {"inductor_region": 0, "inductor_configs": {"epilogue_fusion": True}})


def test_order_of_configs_does_not_matter() -> None:
    one = {"epilogue_fusion": True, "max_autotune": False}
    other = dict(reversed(one.items()))
    assert same_region({"inductor_configs": one}, {"inductor_configs": other})


def test_no_configs_are_the_same_as_none_given() -> None:
    assert same_region({"inductor_configs": None}, {"inductor_configs": {}})
    assert same_region({"inductor_configs": {}}, 0)


def test_dotted_configs_and_those_of_any_type_are_known() -> None:
    configs = {"triton.cudagraphs": False, "cpp.threads": 1, "post_grad_custom_pre_pass": None}
    found = read({"inductor_configs": configs})
    assert found is not None
    assert found.configs == configs


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"inductor_configs": {"epilog_fusion": True}},
            "'inductor_configs' has the key 'epilog_fusion', which torch._inductor.config does not "
            "know; did you mean 'epilogue_fusion'?",
        ),
        (
            {"inductor_configs": {"epilogue_fusion": "yes"}},
            "'inductor_configs' sets 'epilogue_fusion' to 'yes' (str); torch._inductor.config "
            "wants bool",
        ),
        (
            {"inductor_configs": ["epilogue_fusion"]},
            "'inductor_configs' must be a mapping of torch._inductor.config names to values, not "
            "list: ['epilogue_fusion']",
        ),
        (
            {"inductor_config": {"epilogue_fusion": True}},
            "'compile_with_inductor' has the key 'inductor_config'; did you mean "
            "'inductor_configs'?",
        ),
        (
            {"inductor_regions": 1},
            "'compile_with_inductor' has the key 'inductor_regions'; did you mean "
            "'inductor_region'?",
        ),
    ],
    ids=["unknown key", "wrong type", "not a mapping", "slip of the pen", "another slip"],
)
def test_wrong_value_names_the_line_and_the_nearest_key(value: Any, message: str) -> None:
    with pytest.raises(AnnotationError) as raised:
        read(value)
    assert str(raised.value) == f"/home/me/model.py:12: {message}"


def test_wrong_value_without_a_stack_trace_names_the_node() -> None:
    with pytest.raises(AnnotationError, match=r"^sin: "):
        AnnotationReader().read(node_with({"inductor_configs": 1}, trace=None))


def test_gradient_accumulation_belongs_to_no_region() -> None:
    node = node_with(0)
    node.meta["is_gradient_acc"] = True
    assert AnnotationReader().read(node) is None


def test_placeholders_and_outputs_belong_to_no_region() -> None:
    graph = fx.Graph()
    for node in (graph.placeholder("x"), graph.output(())):
        assert AnnotationReader().read(annotate(node, 0)) is None


def test_custom_of_another_kind_is_no_annotation() -> None:
    node = fx.Graph().call_function(torch.sin, ())
    for custom in ("tag", 5, {"other": 1}, {}):
        node.meta["custom"] = custom
        assert AnnotationReader().read(node) is None


def test_sources_are_innermost_frames_each_once() -> None:
    nodes = [node_with(0), node_with(0), node_with(0, trace=None)]
    assert sources_of(nodes) == ("/home/me/model.py:12",)


@pytest.mark.parametrize(
    ("frames", "source"),
    [
        (("/home/me/model.py", TORCHS_OWN), "/home/me/model.py:1"),
        ((TORCHS_OWN, "/home/me/hook.py"), "/home/me/hook.py:2"),
        ((TORCHS_OWN, TORCHS_OWN), f"{TORCHS_OWN}:2"),
    ],
    ids=["calls torch", "called by torch", "all of it torch's"],
)
def test_a_source_is_outside_of_torch_if_a_frame_is(frames: tuple[str, ...], source: str) -> None:
    trace = "".join(f'  File "{file}", line {n}, in f\n' for n, file in enumerate(frames, start=1))
    assert source_of(node_with(0, trace)) == source
