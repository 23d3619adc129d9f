"""What backward nodes inherit: the rules of ``copy_forward_metadata`` on hand-made graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.traceback import annotate

from pytest_fxregion.passes.metadata import OWN_NUMBER, UNMATCHED, copy_forward_metadata
from tests.unit.passes.joint_tracing import joint_graph, leaf


class Drawing:
    """Builds a joint graph node by node; ``forward`` and ``backward`` say on which side it is."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.input = self.graph.placeholder("x")

    def forward(self, **meta: Any) -> fx.Node:
        return self._node("is_forward", meta)

    def backward(self, **meta: Any) -> fx.Node:
        return self._node("is_backward", meta)

    def _node(self, side: str, meta: dict[str, Any]) -> fx.Node:
        node = self.graph.call_function(torch.sin, (self.input,))
        node.meta |= {"partitioner_tag": side, **meta}
        return node

    def module(self, **bodies: fx.GraphModule) -> fx.GraphModule:
        self.graph.output(self.input)
        for name in bodies:
            self.graph.get_attr(name)
        return fx.GraphModule(torch.nn.ModuleDict(bodies), self.graph)


def test_a_backward_node_takes_the_annotation_of_its_number() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": 1})
    drawing.forward(seq_nr=2, custom={"a": 2})
    second = drawing.backward(seq_nr=2)
    first = drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert first.meta["custom"] == {"a": 1}
    assert second.meta["custom"] == {"a": 2}


def test_the_first_forward_node_owns_its_number() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": "first"})
    drawing.forward(seq_nr=1, custom={"a": "second"})
    node = drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert node.meta["custom"] == {"a": "first"}


def test_the_first_owns_its_number_also_without_an_annotation() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1)
    drawing.forward(seq_nr=1, custom={"a": "second"})
    node = drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert "custom" not in node.meta


def test_numbers_go_across_the_bodies_of_higher_order_operators() -> None:
    inner_forward, inner_backward, outer = Drawing(), Drawing(), Drawing()
    inner_forward.forward(seq_nr=7, custom={"a": "body"})
    of_body = inner_backward.backward(seq_nr=7)
    of_outer = inner_backward.backward(seq_nr=1)
    outer.forward(seq_nr=1, custom={"a": "outer"})
    outside = outer.backward(seq_nr=7)
    copy_forward_metadata(outer.module(fw=inner_forward.module(), bw=inner_backward.module()))
    assert of_body.meta["custom"] == {"a": "body"}
    assert of_outer.meta["custom"] == {"a": "outer"}
    assert outside.meta["custom"] == {"a": "body"}


def test_copies_are_deep() -> None:
    drawing = Drawing()
    owner = drawing.forward(seq_nr=1, custom={"a": {"inner": [1]}})
    one, two = drawing.backward(seq_nr=1), drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    one.meta["custom"]["a"]["inner"].append(2)
    one.meta["custom"]["b"] = 0
    assert owner.meta["custom"] == {"a": {"inner": [1]}}
    assert two.meta["custom"] == {"a": {"inner": [1]}}


def test_what_the_backward_set_itself_survives_and_the_forward_wins_a_clash() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"both": "forward", "forward": 1})
    node = drawing.backward(seq_nr=1, custom={"both": "backward", "backward": 2})
    copy_forward_metadata(drawing.module())
    assert node.meta["custom"] == {"both": "forward", "forward": 1, "backward": 2}


def test_the_backwards_own_survives_a_forward_without_annotation() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1)
    node = drawing.backward(seq_nr=1, custom={"backward": 2})
    copy_forward_metadata(drawing.module())
    assert node.meta["custom"] == {"backward": 2}


def test_what_is_no_mapping_is_taken_as_it_is() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom="forward")
    drawing.forward(seq_nr=2, custom={"forward": 1})
    bare = drawing.backward(seq_nr=1)
    with_mapping = drawing.backward(seq_nr=1, custom={"backward": 2})
    replaced = drawing.backward(seq_nr=2, custom="backward")
    copy_forward_metadata(drawing.module())
    assert bare.meta["custom"] == with_mapping.meta["custom"] == "forward"
    assert replaced.meta["custom"] == {"forward": 1}


def test_a_node_without_a_partner_takes_nothing() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": 1})
    other, none = drawing.backward(seq_nr=9), drawing.backward()
    copy_forward_metadata(drawing.module())
    assert "custom" not in other.meta
    assert "custom" not in none.meta


def test_a_line_whose_operations_are_annotated_alike_tells_where_no_number_does() -> None:
    drawing = Drawing()
    drawing.input.meta["stack_trace"] = "line 1"  # computes nothing there
    drawing.forward(seq_nr=1, custom={"a": 1}, stack_trace="line 1")
    drawing.forward(seq_nr=2, custom={"a": 1}, stack_trace="line 1")
    drawing.forward(seq_nr=3, custom={"a": 1}, stack_trace="line 2")
    drawing.forward(seq_nr=4, stack_trace="line 2")
    known = drawing.backward(seq_nr=9, stack_trace="line 1")
    ambiguous = drawing.backward(seq_nr=9, stack_trace="line 2")
    unheard_of = drawing.backward(seq_nr=9, stack_trace="line 3")
    own = drawing.backward(seq_nr=9, stack_trace="line 3", custom={"b": 2})
    copy_forward_metadata(drawing.module())
    assert known.meta["custom"] == {"a": 1}
    assert UNMATCHED not in known.meta
    for node in (ambiguous, unheard_of):
        assert "custom" not in node.meta
        assert node.meta[UNMATCHED]
    assert own.meta["custom"] == {"b": 2}
    assert UNMATCHED not in own.meta


def test_the_backward_of_a_backward_takes_what_that_has() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": 1})
    drawing.backward(seq_nr=1, **{OWN_NUMBER: 5})
    node = drawing.backward(seq_nr=5)
    copy_forward_metadata(drawing.module())
    assert node.meta["custom"] == {"a": 1}


def test_writing_in_place_in_a_region_keeps_its_backward_there() -> None:
    def function(x: Tensor) -> Tensor:
        h = x * 2
        with annotate({"compile_with_inductor": 0}):
            h[1] = x[2]
        return h.tanh()

    joint = joint_graph(function, leaf(3))
    lost = [node.name for node in joint.graph.nodes if UNMATCHED in node.meta]
    assert not lost
    written = [n for n in joint.graph.nodes if "h[1] = x[2]" in n.meta.get("stack_trace", "")]
    backward = [n for n in written if n.meta["partitioner_tag"] == "is_backward"]
    assert backward
    for node in backward:
        assert node.meta.get("is_gradient_acc") or node.meta["custom"]


def test_a_backward_node_does_not_inherit_from_a_backward_node() -> None:
    drawing = Drawing()
    drawing.backward(seq_nr=1, custom={"a": 1})
    node = drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert "custom" not in node.meta


def test_an_accumulation_takes_nothing() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": 1}, nn_module_stack={"m": ()}, source_fn_stack=[()])
    node = drawing.backward(seq_nr=1, is_gradient_acc=True)
    before = dict(node.meta)
    copy_forward_metadata(drawing.module())
    assert node.meta == before


def test_forward_nodes_stay_as_they_are() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, custom={"a": 1})
    node = drawing.forward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert node.meta == {"partitioner_tag": "is_forward", "seq_nr": 1}


def test_module_and_source_stacks_come_along_under_their_forward_names() -> None:
    drawing = Drawing()
    drawing.forward(seq_nr=1, nn_module_stack={"m": ("m", int)}, source_fn_stack=[("f", abs)])
    node = drawing.backward(seq_nr=1)
    copy_forward_metadata(drawing.module())
    assert node.meta["fwd_nn_module_stack"] == {"m": ("m", int)}
    assert node.meta["fwd_source_fn_stack"] == [("f", abs)]
    assert "nn_module_stack" not in node.meta


def backward_annotations(function: Callable[..., Any], *args: Any) -> dict[str, list[Any]]:
    """Return the annotations of the backward's computations, by operator."""
    found: dict[str, list[Any]] = {}
    for node in joint_graph(function, *args).graph.nodes:
        if node.op == "call_function" and node.meta["partitioner_tag"] == "is_backward":
            found.setdefault(str(node.target), []).append(node.meta.get("custom"))
    return found


def test_a_traced_backward_has_the_annotations_of_its_forward() -> None:
    def function(x: Tensor) -> Tensor:
        h = x.exp()
        with annotate({"compile_with_inductor": 0}):
            h = h.sin()
        return h.tanh()

    found = backward_annotations(function, leaf(3))
    assert found["aten.cos.default"] == [{"compile_with_inductor": 0}]
    assert found["aten.tanh_backward.default"] == [None]


def test_two_equal_operations_keep_their_own_annotations() -> None:
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": {"inductor_region": "a"}}):
            a = x.sin()
        with annotate({"compile_with_inductor": {"inductor_region": "b"}}):
            b = x.sin()
        return a * b

    found = backward_annotations(function, leaf(3))["aten.cos.default"]
    regions = [custom["compile_with_inductor"]["inductor_region"] for custom in found]
    assert sorted(regions) == ["a", "b"]


def test_the_backward_of_a_branch_takes_the_annotation_that_all_of_the_branch_has() -> None:
    def alike(x: Tensor) -> Tensor:
        with annotate({"part": 1}):
            return (x.sin() * x).tanh()

    def in_part(x: Tensor) -> Tensor:
        with annotate({"part": 2}):
            y = x.cos()
        return y * y

    def function(flag: Tensor, x: Tensor) -> Tensor:
        chosen: Tensor = torch.cond(flag, alike, in_part, (x,))
        return chosen.exp()

    joint = joint_graph(function, torch.tensor(True), leaf(3))
    _, backward = joint.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    whole, part = (joint.get_submodule(branch.target) for branch in backward.args[1:3])
    assert isinstance(whole, fx.GraphModule)
    assert isinstance(part, fx.GraphModule)
    for node in whole.graph.nodes:
        if node.op == "call_function":
            is_sum = node.meta.get("is_gradient_acc", False)
            assert node.meta.get("custom") == (None if is_sum else {"part": 1})
    assert any(node.meta.get("is_gradient_acc") for node in whole.graph.nodes)
    assert not any("custom" in node.meta for node in part.graph.nodes)


def bodies_of_conds(forward: fx.GraphModule, backward: fx.GraphModule, **meta: Any) -> None:
    """Copy what ``forward``, the body of both branches, has to ``backward``."""
    bodies = {"is_forward": forward, "is_backward": backward}
    graph = fx.Graph()
    x = graph.placeholder("x")
    for side in bodies:
        branch = graph.get_attr(side)
        cond = graph.call_function(torch.ops.higher_order.cond, (x, branch, branch, (x,)))
        cond.meta |= {"partitioner_tag": side, **meta}
    graph.output(x)
    copy_forward_metadata(fx.GraphModule(torch.nn.ModuleDict(bodies), graph))


def sine(**meta: Any) -> tuple[fx.GraphModule, fx.Node]:
    """A body and its only operation."""
    body = fx.symbolic_trace(lambda t: torch.sin(t))
    (node,) = body.graph.find_nodes(op="call_function", target=torch.sin)
    node.meta |= meta
    return body, node


def test_conds_without_a_number_belong_to_no_other() -> None:
    (forward, _), (backward, alone) = sine(custom={"a": "another"}), sine()
    bodies_of_conds(forward, backward)
    assert "custom" not in alone.meta


def test_a_branch_of_one_operation_annotates_what_has_no_annotation() -> None:
    forward, _ = sine(custom={"a": 1})
    (backward, node), (other, own) = sine(), sine(custom={"a": 2})
    bodies_of_conds(forward, backward, seq_nr=1)
    bodies_of_conds(forward, other, seq_nr=1)
    assert node.meta["custom"] == {"a": 1}
    assert own.meta["custom"] == {"a": 2}
    assert [n.op for n in backward.graph.nodes if "custom" in n.meta] == ["call_function"]


def test_a_branch_that_computes_nothing_annotates_nothing() -> None:
    backward, node = sine()
    bodies_of_conds(fx.symbolic_trace(lambda t: t), backward, seq_nr=1)
    assert "custom" not in node.meta
