"""Which nodes of a joint graph are tagged: the engine's additions, all of them and no others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.traceback import annotate
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from pytest_fxregion.passes.gradient_accumulation import MARK, TORCHS_OWN, tag_accumulations
from tests.unit.passes.joint_tracing import joint_graph, leaf, tagged

ADD = torch.ops.aten.add.Tensor


def additions_of_the_engine(function: Callable[..., Any], *args: Any) -> int:
    """Count them in eager by hand: edges of autograd's graph into an input beyond the first."""
    outputs = function(*args)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    uses: dict[tuple[Any, int], int] = {}
    seen = set()
    pending = []
    for output in outputs:
        edge = torch.autograd.graph.get_gradient_edge(output)
        uses[edge.node, edge.output_nr] = uses.get((edge.node, edge.output_nr), 0) + 1
        pending.append(edge.node)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        for target, index in node.next_functions:
            if target is not None:
                uses[target, index] = uses.get((target, index), 0) + 1
                pending.append(target)
    return sum(count - 1 for count in uses.values())


def used_three_times(x: Tensor) -> Tensor:
    h = x.exp()
    return h.sin() + h.cos() + h.tanh()


def parameter_used_twice(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu() @ w


def added_to_itself(x: Tensor) -> Tensor:
    return x + x


def multiplied_with_itself(x: Tensor) -> Tensor:
    return (x * x) * x


def views(x: Tensor) -> Tensor:
    return x.view(-1, 2).sin().sum() + x.cos().sum() + x[1:].exp().sum() + x.t().sum()


def broadcast(x: Tensor) -> Tensor:
    return (x + torch.ones(3, *x.shape)).sin().sum() + x.expand(2, *x.shape).cos().sum()


def several_outputs_of_one_op(x: Tensor) -> Tensor:
    a, b, c, d = x.sin().unbind(0)
    return a * b + c * a + d + b


def an_output_that_is_used(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y, y.sin()


def a_part_without_gradient(x: Tensor) -> Tensor:
    h = x.exp()
    with torch.no_grad():
        scale = h.abs().amax()
    return h.sin() / scale + h.detach() + h.cos() * (h > 0)


def two_values_with_the_same_gradients(x: Tensor) -> Tensor:
    a, b = x.sin(), x.cos()
    return (a + b).exp() * (a + b).tanh()


def changed_in_place(x: Tensor) -> Tensor:
    h = x.clone()
    h[0].mul_(2)
    h[1] = x[2]
    return h.sin() + h.cos()


def mixed_precision(x: Tensor) -> Tensor:
    half = x.bfloat16()
    return (half.sin() + half.cos()).float() + x.double().sin().float() + x


def indexed(x: Tensor) -> Tensor:
    return x[torch.tensor([0, 0, 2])].sin().sum() + x.gather(0, torch.zeros(1, 4).long()).sum()


@pytest.mark.parametrize(
    "function",
    [
        used_three_times,
        added_to_itself,
        multiplied_with_itself,
        views,
        broadcast,
        several_outputs_of_one_op,
        an_output_that_is_used,
        a_part_without_gradient,
        two_values_with_the_same_gradients,
        changed_in_place,
        mixed_precision,
        indexed,
    ],
)
def test_there_is_a_tag_for_each_addition_that_the_engine_makes(
    function: Callable[..., Any],
) -> None:
    found = tagged(joint_graph(function, leaf(4, 4)))
    assert len(found) == additions_of_the_engine(function, leaf(4, 4))
    assert {node.target for node in found} == {ADD}


def test_a_parameter_that_is_used_twice() -> None:
    joint = joint_graph(parameter_used_twice, leaf(3, 4), leaf(4, 4))
    (addition,) = tagged(joint)
    (output,) = joint.graph.output_node().args
    assert isinstance(output, (list, tuple))
    assert addition is output[2]  # the gradient of w


def test_sizes_may_be_symbols() -> None:
    assert len(tagged(joint_graph(views, leaf(4, 4), dynamic=True))) == 3


def test_the_users_own_additions_are_not_tagged() -> None:
    joint = joint_graph(lambda x, y: (x + y) + (x * 2 + y * 3), leaf(3), leaf(3))
    found = tagged(joint)
    assert len(found) == 2
    forward = [n for n in joint.graph.nodes if n.meta.get("partitioner_tag") == "is_forward"]
    assert not set(found) & set(forward)


class OwnSum(torch.autograd.Function):
    """Its backward adds a gradient to itself."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, factor: float, b: Tensor) -> Tensor:
        return a * factor + b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, Tensor]:
        return g * 2, None, g + g


def test_a_custom_functions_own_sum_is_not_an_accumulation() -> None:
    apply: Any = OwnSum.apply
    joint = joint_graph(lambda x: apply(x * 1.5, 2.0, x).sin(), leaf(4))
    (addition,) = tagged(joint)
    assert addition.args[0] is not addition.args[1]
    own = [
        n
        for n in joint.graph.nodes
        if n.target is ADD and n.args[0] is n.args[1] and isinstance(n.args[0], fx.Node)
    ]
    assert len(own) == 1


class SumOfTheSameTwo(torch.autograd.Function):
    """Its backward adds the very gradients that the engine will add after it."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return a * b + c

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = g * 2, g * 3
        return a, b, a + b


def test_a_sum_of_the_same_gradients_before_they_arrive_is_not_the_engines() -> None:
    apply: Any = SumOfTheSameTwo.apply
    joint = joint_graph(lambda x, y: apply(x.clone(), x, y).sin(), leaf(4), leaf(4))
    (addition,) = tagged(joint)
    (output,) = joint.graph.output_node().args
    assert isinstance(output, (list, tuple))
    assert output[-2] is addition  # the gradient of x
    assert isinstance(output[-1], fx.Node)
    assert set(output[-1].args) == set(addition.args)  # the gradient of y, the same sum


def hook_before(x: Tensor) -> Tensor:
    h = x * 2
    h.register_hook(lambda g: g + g)
    return h.sin() + h.cos()


def hook_after(x: Tensor) -> Tensor:
    h = (x * 2).sin()
    h.register_hook(lambda g: g + g)
    return h + x.exp()


def hooks_between(x: Tensor) -> Tensor:
    h = x * 2
    a, b = h.sin(), h.cos()
    a.register_hook(lambda g: g + g * 2)
    b.register_hook(lambda g: g + 1)
    return a * b + x


@pytest.mark.parametrize("function", [hook_before, hook_after, hooks_between])
def test_the_arithmetic_of_tensor_hooks_is_not_tagged(function: Callable[..., Any]) -> None:
    with_hooks = tagged(joint_graph(function, leaf(4)))
    assert len(with_hooks) == additions_of_the_engine(function, leaf(4))
    for node in with_hooks:
        a, b = node.args
        assert isinstance(a, fx.Node)
        assert isinstance(b, fx.Node)
        assert a is not b


def test_the_arithmetic_of_hooks_keeps_its_annotation() -> None:
    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = x * 2
            h.register_hook(lambda g: g * 3)
            return h.sin()

    joint = joint_graph(function, leaf(4))
    assert not tagged(joint)
    computed = [n for n in joint.graph.nodes if n.op == "call_function"]
    assert [n.name for n in computed if "custom" not in n.meta] == []


def gate(x: Tensor, w: Tensor) -> Tensor:
    h = x @ w
    return torch.sigmoid(h) + h


def save_matmuls(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    if operation is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True},
        {"use_reentrant": False},
        {
            "use_reentrant": False,
            "context_fn": functools.partial(create_selective_checkpoint_contexts, save_matmuls),
        },
    ],
    ids=["reentrant", "non_reentrant", "selective"],
)
def test_checkpointing_changes_no_tag(options: dict[str, Any]) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        y: Tensor = checkpoint(gate, x, w, **options)
        return y @ w + x

    def plain(x: Tensor, w: Tensor) -> Tensor:
        return gate(x, w) @ w + x

    found = tagged(joint_graph(function, leaf(3, 3), leaf(3, 3)))
    assert len(found) == additions_of_the_engine(plain, leaf(3, 3), leaf(3, 3)) == 3


def test_tied_parameters_sum_their_gradients_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: Tensor) -> Tensor:
            logits: Tensor = self.head(self.embedding(tokens))
            return logits

    assert len(tagged(joint_graph(Tied(), torch.tensor([1, 1, 3])))) == 1


def test_a_nested_regions_body_is_tagged_once_for_all_its_calls() -> None:
    def layer(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).sin() + x @ w

    shared = torch.compiler.nested_compile_region(layer)
    joint = joint_graph(lambda x, w: shared(shared(x, w), w) + x, leaf(3, 3), leaf(3, 3))
    outside = [node for node in joint.graph.nodes if node.meta.get("is_gradient_acc")]
    assert len(outside) == 2  # x and w, of the two calls
    assert len(tagged(joint)) == 4  # and both once more in the one body


def test_tagged_nodes_have_no_custom_and_no_mark_stays_behind() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0, "owner": "me"}):
            return used_three_times(x @ w) @ w

    joint = joint_graph(function, leaf(3, 3), leaf(3, 3))
    found = tagged(joint)
    assert len(found) == 3
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        custom = {} if node in found else {"compile_with_inductor": 0, "owner": "me"}
        assert node.meta.get("custom", {}) == custom, node.name


def test_tags_that_tracing_gave_wrongly_are_taken_away() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    wrong = graph.call_function(ADD, (x, x))
    wrong.meta["is_gradient_acc"] = True
    right = graph.call_function(ADD, (wrong, x))
    right.meta["custom"] = {MARK: True}
    users = graph.call_function(ADD, (right, x))
    users.meta["custom"] = 5
    graph.output(users)
    assert tag_accumulations(fx.GraphModule({}, graph)) == 1
    assert wrong.meta == {TORCHS_OWN: True}
    assert right.meta == {"is_gradient_acc": True}
    assert users.meta == {"custom": 5}


def test_torch_is_left_as_it_was() -> None:
    before = torch.autograd.grad
    joint_graph(added_to_itself, leaf(2))
    assert torch.autograd.grad is before
