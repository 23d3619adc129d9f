"""Which equal nodes of a graph are merged, and which are not."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.utils.checkpoint import checkpoint

from pytest_fxregion import region
from pytest_fxregion.passes.common_subexpressions import merge_common_subexpressions
from tests.unit.passes.joint_tracing import joint_graph, leaf, tagged

aten = torch.ops.aten


class Drawing:
    """Builds a graph node by node; every value is a small tensor."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.x = self.graph.placeholder("x")
        self.x.meta["val"] = torch.empty(2, 2)
        self.results: list[fx.Node] = []

    def call(self, target: Any, *args: Any, meta: dict[str, Any] | None = None) -> fx.Node:
        node = self.graph.call_function(target, args)
        node.meta = {"val": torch.empty(2, 2), **(meta or {})}
        return node

    def sin(self, **meta: Any) -> fx.Node:
        """Return a new sine; its cosine is a result, so that it is not one itself."""
        node = self.call(aten.sin.default, self.x, meta=meta)
        self.use(node)
        return node

    def use(self, *nodes: fx.Node) -> None:
        for node in nodes:
            self.results.append(self.call(aten.mul.Tensor, node, len(self.results) + 2))

    def merged(self) -> int:
        self.graph.output(tuple(self.results))
        before = len(self.graph.nodes)
        module = fx.GraphModule({}, self.graph)
        count = merge_common_subexpressions(module)
        self.graph.lint()
        assert len(self.graph.nodes) == before - count
        return count


def test_equal_nodes_are_merged_and_their_users_after_them() -> None:
    drawing = Drawing()
    one, other = drawing.sin(), drawing.sin()
    drawing.use(drawing.call(aten.exp.default, one), drawing.call(aten.exp.default, other))
    assert drawing.merged() == 2
    assert len(one.users) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"custom": {"compile_with_inductor": 0}}, {}),
        (
            {"custom": {"compile_with_inductor": {"inductor_region": 1}}},
            {"custom": {"compile_with_inductor": {"inductor_region": True}}},
        ),
        (
            {"custom": {"compile_with_inductor": {"inductor_configs": {"max_autotune": True}}}},
            {"custom": {"compile_with_inductor": {"inductor_configs": {}}}},
        ),
        ({"custom": {"stage": 1}}, {"custom": {"stage": 2}}),
        ({"recompute": "PREFER_RECOMPUTE"}, {"recompute": "MUST_SAVE"}),
        ({"ac_graph_id": 1, "recompute": "x"}, {"ac_graph_id": 2, "recompute": "x"}),
        ({"partitioner_tag": "is_forward"}, {"partitioner_tag": "is_backward"}),
        ({"is_gradient_acc": True}, {"is_gradient_acc": True}),
    ],
    ids=["in_and_out", "ids", "configs", "own_keys", "policies", "calls", "sides", "sums"],
)
def test_nodes_with_other_plans_stay_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    drawing = Drawing()
    drawing.sin(**one)
    drawing.sin(**other)
    assert drawing.merged() == 0


@pytest.mark.parametrize(
    "meta",
    [
        {"custom": {"compile_with_inductor": {"inductor_region": ["a"], "inductor_configs": {}}}},
        {"recompute": "PREFER_RECOMPUTE", "ac_graph_id": 3},
        {"partitioner_tag": "is_backward", "seq_nr": 1, "stack_trace": "File"},
    ],
    ids=["annotated", "checkpointed", "backward"],
)
def test_nodes_with_equal_plans_are_merged(meta: dict[str, Any]) -> None:
    drawing = Drawing()
    drawing.sin(**meta)
    drawing.sin(**{**meta, "seq_nr": 2})
    assert drawing.merged() == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [((1,), (1.0,)), ((True,), (1,)), ((0.0,), (-0.0,)), ((2,), (3,))],
    ids=repr,
)
def test_other_constants_are_other_nodes(one: Any, other: Any) -> None:
    drawing = Drawing()
    drawing.use(drawing.call(aten.add.Scalar, drawing.x, *one))
    drawing.use(drawing.call(aten.add.Scalar, drawing.x, *other))
    assert drawing.merged() == 0


@pytest.mark.parametrize(
    "constant",
    [
        *(None, True, 2, 0.5, 1j, "mean", (1, 2)),
        *(torch.float32, torch.device("cpu"), torch.strided, torch.contiguous_format),
    ],
    ids=repr,
)
def test_equal_constants_are_one_node(constant: Any) -> None:
    drawing = Drawing()
    drawing.use(*(drawing.call(aten.add.Scalar, drawing.x, constant) for _ in range(2)))
    assert drawing.merged() == 1


def test_other_keywords_are_other_nodes() -> None:
    drawing = Drawing()
    for kind in ("none", "tanh"):
        node = drawing.call(aten.gelu.default, drawing.x)
        node.kwargs = {"approximate": kind}
        drawing.use(node)
    assert drawing.merged() == 0


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (aten.rand_like.default, ()),
        (aten.native_dropout.default, (0.5, True)),
        (aten.empty_like.default, ()),
        (aten.empty.memory_format, ()),
        (aten.empty_permuted.default, ([0],)),
        (aten.empty_strided.default, ([1],)),
        (aten.new_empty.default, ([2],)),
        (aten.new_empty_strided.default, ([2], [1])),
        (aten.resize.default, ([8],)),
        (aten.add_.Tensor, (1,)),
    ],
    ids=str,
)
def test_what_does_more_than_compute_is_not_merged(target: Any, args: tuple[Any, ...]) -> None:
    drawing = Drawing()
    drawing.use(drawing.call(target, drawing.x, *args), drawing.call(target, drawing.x, *args))
    assert drawing.merged() == 0


def test_each_write_in_between_keeps_reads_apart() -> None:
    drawing = Drawing()
    drawing.sin(), drawing.sin()
    view = drawing.call(aten.view.default, drawing.x, [4])
    for _ in range(2):
        drawing.call(aten.add_.Tensor, view, 1)
        drawing.sin(), drawing.sin()
    assert drawing.merged() == 3


def test_a_write_to_another_value_in_between_does_not() -> None:
    drawing = Drawing()
    drawing.sin()
    drawing.call(aten.add_.Tensor, drawing.call(aten.ones.default, [2, 2]), 1)
    drawing.sin()
    assert drawing.merged() == 1


def test_a_switch_of_global_state_in_between_keeps_nodes_apart() -> None:
    drawing = Drawing()
    drawing.sin(), drawing.sin()
    drawing.call(torch._C._set_grad_enabled, False)
    drawing.sin(), drawing.sin()
    assert drawing.merged() == 2


def test_arguments_of_which_nothing_is_known_are_equal_to_none() -> None:
    drawing, unknown = Drawing(), slice(None)
    drawing.use(*(drawing.call(aten.add.Scalar, drawing.x, unknown) for _ in range(2)))
    assert drawing.merged() == 0


def test_a_value_that_is_written_to_stays_a_tensor_of_its_own() -> None:
    drawing = Drawing()
    one, _ = drawing.sin(), drawing.sin()
    drawing.call(aten.mul_.Tensor, drawing.call(aten.view.default, one, [4]), 2)
    assert drawing.merged() == 0


def test_outputs_and_their_views_stay_tensors_of_their_own() -> None:
    drawing = Drawing()
    one, other = drawing.sin(), drawing.sin()
    drawing.results += [one, drawing.call(aten.t.default, other)]
    assert drawing.merged() == 0


CHECKPOINT = {"recompute": "PREFER_RECOMPUTE", "ac_graph_id": 1}
ANOTHER = {**CHECKPOINT, "ac_graph_id": 2}


@pytest.mark.parametrize(
    ("plan", "one_user", "other_user", "expected"),
    [
        (CHECKPOINT, CHECKPOINT, ANOTHER, 0),
        (CHECKPOINT, CHECKPOINT, {**ANOTHER, "partitioner_tag": "is_backward"}, 1),
        (CHECKPOINT, ANOTHER, ANOTHER, 1),
        ({}, CHECKPOINT, ANOTHER, 1),
    ],
    ids=["another call", "another call's backward", "both", "not checkpointed"],
)
def test_a_value_that_another_checkpointed_call_uses_is_not_one_that_none_does(
    plan: dict[str, Any], one_user: dict[str, Any], other_user: dict[str, Any], expected: int
) -> None:
    drawing = Drawing()
    for number, user in enumerate((one_user, other_user)):
        node = drawing.call(aten.sin.default, drawing.x, meta=plan)
        drawing.results.append(drawing.call(aten.add.Scalar, node, number, meta=user))
    assert drawing.merged() == expected


def test_values_of_unknown_size_are_merged_only_if_they_are_of_one_size() -> None:
    drawing = Drawing()
    for size in (2, 3):
        drawing.use(
            drawing.call(aten.nonzero.default, drawing.x, meta={"val": torch.empty(size, 1)})
        )
    assert drawing.merged() == 0


def test_items_and_arithmetic_on_sizes_are_merged() -> None:
    drawing = Drawing()
    for _ in range(2):
        largest = drawing.call(aten.max.dim, drawing.x, 0)
        drawing.use(drawing.call(operator.getitem, largest, 0))
        drawing.use(drawing.call(operator.getitem, largest, 1))
    assert drawing.merged() == 3


REGION = {"custom": {"compile_with_inductor": 0}}


@pytest.mark.parametrize(("meta", "expected"), [(REGION, 0), ({}, 2)], ids=["region", "outside"])
def test_views_and_constants_of_a_region_stay_where_they_are(
    meta: dict[str, Any], expected: int
) -> None:
    drawing = Drawing()
    for _ in range(2):
        drawing.use(drawing.call(aten.t.default, drawing.x, meta=meta))
        drawing.use(drawing.call(aten.ones.default, [2, 2], meta=meta))
    assert drawing.merged() == expected


def test_operations_on_equal_views_and_constants_are_equal() -> None:
    drawing = Drawing()
    for _ in range(2):
        view = drawing.call(aten.t.default, drawing.x, meta=REGION)
        mask = drawing.call(aten.tril.default, drawing.call(aten.ones.default, [2, 2], meta=REGION))
        drawing.use(drawing.call(aten.mul.Tensor, view, mask, meta=REGION))
    assert drawing.merged() == 4  # nothing reads the second view, mask and ones any more


def equal_in_a_region(x: Tensor) -> Tensor:
    with region():
        a = x.sin() * 2
    with region():
        b = x.sin() * 3
    return a.exp() + b.exp()


def equal_in_two_regions(x: Tensor) -> Tensor:
    with region("a"):
        a = x.sin() * 2
    with region("b"):
        b = x.sin() * 3
    return a.exp() + b.exp()


def checkpointed(x: Tensor) -> Tensor:  # a sine of the call, two cosines of the backward
    def waves(t: Tensor) -> Tensor:
        return t.sin() * t.sin().exp()

    y: Tensor = checkpoint(waves, x, use_reentrant=False)
    return y + x.sin().exp().cos()


@pytest.mark.parametrize(
    ("function", "expected"),
    [(equal_in_a_region, 2), (equal_in_two_regions, 0), (checkpointed, 3)],
)
def test_equal_operations_of_a_traced_function(
    function: Callable[[Tensor], Tensor], expected: int
) -> None:
    joint = joint_graph(function, leaf(4))
    inputs = [torch.linspace(0, 1, 4), torch.ones(4)]
    before = joint(*inputs)
    sums = len(tagged(joint))
    assert merge_common_subexpressions(joint) == expected
    joint.recompile()
    for one, other in zip(joint(*inputs), before, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert len(tagged(joint)) == sums


def test_work_grows_with_the_graph_and_no_faster() -> None:
    def calls(pairs: int) -> int:
        drawing = Drawing()
        node = drawing.x
        for _ in range(pairs):
            one, other = (drawing.call(aten.sin.default, node) for _ in range(2))
            node = drawing.call(aten.add.Tensor, one, other)
        drawing.results.append(node)
        counted = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            merged = drawing.merged()
        finally:
            sys.setprofile(None)
        assert merged == pairs
        return counted

    calls(10)  # what is imported and remembered at the first call
    assert calls(2000) < 8 * 1.1 * calls(250)
