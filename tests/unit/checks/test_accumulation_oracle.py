"""The oracle for gradient accumulation, with tags removed, added and moved behind its back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.traceback import annotate
from torch.utils.checkpoint import checkpoint

from pytest_fxregion import FxRegion, RegionRun
from pytest_fxregion.checks.as_traced import unfolded_checkpoints
from pytest_fxregion.checks.gradient_accumulation import (
    Accumulation,
    disagreements,
    source_line,
    tagged_nodes,
)
from pytest_fxregion.device import CPU
from pytest_fxregion.errors import CheckError
from pytest_fxregion.options import STAGES

HERE = Path(__file__).parent


def run_of(function: Callable[..., Any], *args: Any, **options: Any) -> RegionRun:
    """Run the function as a test's fixture would; nothing in it is annotated, so none compiles."""
    fxregion = FxRegion(
        test="test_it",
        root=HERE,
        device=CPU,
        stages=STAGES,
        provenance="",
        snapshot=lambda document, *, name: None,
    )
    return fxregion(function, *args, **options)


def leaf(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).requires_grad_()


class Model(nn.Module):
    """Its weight is used twice, its hidden value three times, which has another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x @ self.weight
        waves = hidden.sin() + hidden.cos() + hidden.exp()
        return waves @ self.weight


@pytest.fixture(scope="module")
def model_run() -> RegionRun:
    return run_of(Model(), leaf(3, 4))


def altered(run: RegionRun, change: Callable[[fx.Graph], None]) -> str:
    """Change a copy of the joint graph's tags and return what the check says then."""
    joint = copy.deepcopy(run.joint.graph)
    change(joint.graph)
    return "\n".join(disagreements(run.tracked.eager, run.tracked.between_graphs, [joint]))


def test_a_gradient_may_be_added_at_the_base_of_a_view_that_is_returned() -> None:
    # AOTAutograd takes the view anew outside of the graph.
    def of_an_argument(x: Tensor) -> Any:
        view = x.unsqueeze(0)
        return view + view * 2, view

    def of_a_view_of_an_intermediate(x: Tensor) -> Any:
        hidden = x * 2
        view = hidden.unsqueeze(0)
        row = view[:, 0]
        return hidden, view * 2, row, row * 3

    def of_several(x: Tensor) -> Any:
        first, second = x.split(2, 0)
        return first, second * 2, x.clone(), x[..., -1]

    for function in (of_an_argument, of_a_view_of_an_intermediate, of_several):
        run = run_of(function, leaf(4, 4))
        run.check_gradient_accumulation()
        assert run.tracked.movable
        assert disagreements(run.tracked.eager, run.tracked.between_graphs, [run.joint.graph])


def test_an_argument_that_comes_to_require_a_gradient_is_an_output() -> None:
    def function(x: Tensor, state: Tensor) -> Tensor:
        state.sub_(x)
        return state.sin() + state.cos()

    run = run_of(function, leaf(3), torch.ones(3))
    run.check_numerics()
    run.check_gradient_accumulation()
    assert [len(a.uses) for a in run.tracked.eager] == [3]


def test_a_result_that_is_returned_twice_is_summed_by_its_caller() -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.tanh()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * 2

    def function(x: Tensor) -> Any:
        hidden: Tensor = Same.apply(x) * 0.5  # type: ignore[no-untyped-call]
        return hidden.contiguous(), hidden

    run = run_of(function, leaf(3, 4))
    run.check_gradient_accumulation()
    assert run.tracked.between_graphs
    assert run.joint.gradient_accumulations


def test_a_graph_that_runs_twice_counts_twice() -> None:
    def layer(x: Tensor) -> Tensor:
        double = x * 2
        return double.sin() + double.cos()

    def function(x: Tensor) -> Tensor:
        with annotate({"stage": 1}):
            torch._dynamo.graph_break()  # so that each call of the layer is one of its graph
        return layer(layer(x))

    run = run_of(function, leaf(3))
    run.check_gradient_accumulation()
    (graph,) = run.graphs
    assert graph.backward_runs == 2


def test_a_value_that_a_graph_hands_on_in_vain_gets_no_gradient() -> None:
    def function(x: Tensor) -> Tensor:
        hidden = x * 2
        result = hidden.sin() + hidden.cos()
        torch._dynamo.graph_break()
        hidden.exp()  # nothing uses it, but dynamo hands `hidden` on
        return result * 3

    run = run_of(function, leaf(3))
    run.check_gradient_accumulation()
    assert run.tracked.empty == ((torch.float32, (3,)),)
    assert disagreements(
        run.tracked.eager,
        run.tracked.between_graphs,
        [graph.joint.graph for graph in run.graphs if graph.joint is not None],
    )


def test_sums_in_a_checkpoint_that_dynamo_leaves_to_eager_count() -> None:
    def twice(x: Tensor, weight: Tensor) -> Tensor:
        hidden = x * weight
        torch._dynamo.graph_break()  # a break in here, and nothing of the call is traced
        return hidden.sin() + hidden.cos()

    def nested(x: Tensor, weight: Tensor) -> Tensor:
        inner: Tensor = checkpoint(twice, x, weight, use_reentrant=True)
        return inner + x

    def function(x: Tensor, weight: Tensor) -> Any:
        hidden: Tensor = checkpoint(nested, x * 2, weight, use_reentrant=True)
        return hidden, hidden * weight

    run = run_of(function, leaf(3), leaf(3))
    run.check()
    joint = [graph.joint.graph for graph in run.graphs if graph.joint is not None]
    assert not any(map(tagged_nodes, joint))
    assert sum(len(a.uses) - 1 for a in run.tracked.between_graphs) == 4


def test_sums_from_which_no_argument_gets_a_gradient_do_not_count() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            view = x.unsqueeze(0)  # says that it requires a gradient, and hands none on
        hidden = view.clone()
        return hidden * hidden + x * 2

    run = run_of(function, leaf(3))
    run.check()
    assert not run.tracked.eager


def test_clean_tags_pass(model_run: RegionRun) -> None:
    model_run.check_gradient_accumulation()
    assert sorted(len(a.uses) for a in model_run.tracked.eager) == [2, 3]
    assert not altered(model_run, lambda graph: None)


def test_a_missing_tag_names_the_parameter_and_the_lines_that_use_it(model_run: RegionRun) -> None:
    def change(graph: fx.Graph) -> None:
        (node,) = [n for n in accumulations(graph) if n.meta["val"].shape == (4, 4)]
        del node.meta["is_gradient_acc"]

    text = altered(model_run, change)
    assert text.startswith("float32[4, 4]: eager makes 1 addition, the compiled call 0 additions")
    assert "eager: weight (float32[4, 4]): 2 gradients" in text
    assert "test_accumulation_oracle.py:" in text
    assert "(hidden = x @ self.weight)" in text
    assert "(return waves @ self.weight)" in text
    assert "float32[3, 4]" not in text


def test_a_missing_tag_names_the_intermediate_by_the_line_that_made_it(
    model_run: RegionRun,
) -> None:
    def change(graph: fx.Graph) -> None:
        node = next(n for n in accumulations(graph) if n.meta["val"].shape == (3, 4))
        del node.meta["is_gradient_acc"]

    text = altered(model_run, change)
    assert text.startswith("float32[3, 4]: eager makes 2 additions, the compiled call 1 addition")
    assert "eager: the result of Mm at test_accumulation_oracle.py:" in text
    assert "joint graph: add" in text


def test_an_additional_tag_names_the_nodes(model_run: RegionRun) -> None:
    added = []

    def change(graph: fx.Graph) -> None:
        forward = next(n for n in graph.nodes if n.target is torch.ops.aten.add.Tensor)
        forward.meta["is_gradient_acc"] = True
        added.append(forward.name)

    text = altered(model_run, change)
    assert text.startswith("float32[3, 4]: eager makes 2 additions, the compiled call 3 additions")
    assert f"joint graph: {added[0]}" in text


def test_a_tag_on_a_node_of_another_shape_is_two_faults(model_run: RegionRun) -> None:
    def change(graph: fx.Graph) -> None:
        (node,) = [n for n in accumulations(graph) if n.meta["val"].shape == (4, 4)]
        del node.meta["is_gradient_acc"]
        other = next(n for n in graph.nodes if n.target is torch.ops.aten.sin.default)
        other.meta["is_gradient_acc"] = True

    text = altered(model_run, change)
    assert "float32[4, 4]: eager makes 1 addition, the compiled call 0" in text
    assert "float32[3, 4]: eager makes 2 additions, the compiled call 3" in text


def test_a_tag_on_a_node_of_another_precision_is_found(model_run: RegionRun) -> None:
    def change(graph: fx.Graph) -> None:
        node = next(n for n in accumulations(graph))
        node.meta["val"] = node.meta["val"].to(torch.bfloat16)

    assert "bfloat16" in altered(model_run, change)


def test_the_check_fails_naming_the_test_and_the_run() -> None:
    run = run_of(lambda x: x.sin() + x.cos(), leaf(3), name="waves")
    for node in tagged_nodes(run.joint.graph):
        del node.meta["is_gradient_acc"]
    with pytest.raises(CheckError) as failure:
        run.check_gradient_accumulation()
    text = str(failure.value)
    assert text.startswith("test_it, run 'waves': gradients are not summed as in eager\n")
    assert "x (float32[3]): 2 gradients, from Cos at test_accumulation_oracle.py:" in text


def test_a_value_of_no_gradients_is_not_held_against_anything() -> None:
    run_of(lambda x: x.sin() + x.cos(), torch.ones(3)).check_gradient_accumulation()
    run_of(lambda x: x * x, leaf(3), backward=False).check_gradient_accumulation()


def test_sums_between_graphs_count() -> None:
    def function(x: Tensor) -> Tensor:
        h = x.sin() + x.cos()
        torch._dynamo.graph_break()
        return h.sin() + h.exp() + x

    run = run_of(function, leaf(3))
    assert len(run.graphs) == 2
    assert sum(len(a.uses) - 1 for a in run.tracked.between_graphs) == 1
    run.check_gradient_accumulation()
    assert disagreements(run.tracked.eager, (), joints(run))


def two_outputs(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y, y.sin()


def one_output_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y, y


def an_output_and_its_view(x: Tensor) -> list[Tensor]:
    y = x.exp()
    return [y, y.view(-1, 1), y.cos()]


def an_argument_as_output(x: Tensor) -> dict[str, Tensor]:
    return {"x": x, "sin": x.sin()}


@pytest.mark.parametrize(
    ("function", "additions"),
    [
        (two_outputs, 1),
        (one_output_twice, 1),
        (an_output_and_its_view, 2),
        (an_argument_as_output, 1),
    ],
)
def test_the_gradients_that_outputs_start_with_count(
    function: Callable[..., Any], additions: int
) -> None:
    run = run_of(function, leaf(3))
    assert sum(len(a.uses) - 1 for a in run.tracked.eager) == additions
    run.check_gradient_accumulation()


def with_reentrant_checkpoint(x: Tensor) -> Tensor:
    h: Tensor = checkpoint(lambda t: t.sin() + t.cos(), x, use_reentrant=True)
    return h + x


def with_a_nested_region(x: Tensor) -> Tensor:
    layer = torch.compiler.nested_compile_region(lambda t: t.sin() + t.cos())
    return layer(layer(x)) + x  # type: ignore[no-any-return]


def with_a_branch(x: Tensor) -> Tensor:
    def one(t: Tensor) -> Tensor:
        return t.sin() + t.cos()

    def other(t: Tensor) -> Tensor:
        return t * t

    chosen: Tensor = torch.cond(x.sum() > 100, one, other, (x,))
    return chosen + x


def with_in_place_writing(x: Tensor) -> Tensor:
    h = x.clone()
    h[0].mul_(2)
    h[1] = x[2]
    return h.sin() + h.cos()


def with_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        result: Tensor = (x @ x).sin() @ x
    return result


@pytest.mark.parametrize(
    "function",
    [
        with_reentrant_checkpoint,
        with_a_nested_region,
        with_a_branch,
        with_in_place_writing,
        with_autocast,
    ],
)
def test_what_eager_hides_or_orders_otherwise_agrees(function: Callable[..., Any]) -> None:
    run = run_of(function, leaf(3, 3))
    run.check_numerics()
    run.check_gradient_accumulation()


def test_one_tensor_passed_twice_is_one_value() -> None:
    x = leaf(3)
    run = run_of(lambda a, b: a.sin() * b, x, x)
    assert [a.value for a in run.tracked.eager] == ["a"]
    run.check_gradient_accumulation()


def test_a_tensor_in_a_closure_is_named() -> None:
    weight = leaf(3)
    run = run_of(lambda x: x * weight + weight, leaf(3))
    assert [a.value for a in run.tracked.eager] == ["weight"]


def test_dynamic_shapes_are_matched_by_their_sizes() -> None:
    run = run_of(lambda x: x.sin() + x.cos() + x.view(-1, 2).sum(), leaf(6), dynamic=True)
    run.check_gradient_accumulation()


def twice(x: Tensor) -> Tensor:
    return x.sin() + x.cos()


def of_experts(x: Tensor, counts: Tensor) -> Tensor:
    sizes = counts.tolist()
    return torch.cat([twice(part) for part in x.split(sizes)])


def test_sizes_that_only_running_tells_are_matched_with_those_of_eager(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x = leaf(6, 2)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        runs = [run_of(twice, x), run_of(of_experts, leaf(6, 2), torch.tensor([2, 0, 4]))]
    for run in runs:
        run.check_gradient_accumulation()
        assert len(tagged_nodes(run.joint.graph)) == len(run.tracked.eager)

        def untag_one(graph: fx.Graph) -> None:
            next(n for n in graph.nodes if n.meta.get("is_gradient_acc")).meta.clear()

        assert "eager makes 1 addition, the compiled call 0 additions" in altered(run, untag_one)
    assert not caplog.records


def test_unfolded_checkpoints_are_put_back() -> None:
    function = torch.utils.checkpoint.CheckpointFunction
    before = function.apply
    with unfolded_checkpoints():
        pass
    assert function.apply == before


def test_an_accumulation_as_text() -> None:
    one = Accumulation("w", (torch.bfloat16, (2, 3)), ("Mm at a.py:1 (x @ w)", "Sin"))
    assert str(one) == "w (bfloat16[2, 3]): 2 gradients, from Mm at a.py:1 (x @ w); Sin"


def test_source_lines_skip_frames_of_torch_and_of_this_package(tmp_path: Path) -> None:
    frames = [
        f'  File "{tmp_path}/model.py", line 3, in forward\n    return x.sin()\n',
        f'  File "{torch.__file__}", line 9, in call\n    pass\n',
    ]
    assert source_line(frames, tmp_path) == "model.py:3 (return x.sin())"
    assert source_line(frames, None) == f"{tmp_path}/model.py:3 (return x.sin())"
    assert source_line(frames[1:], tmp_path) is None


def accumulations(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.meta.get("is_gradient_acc")]


def joints(run: RegionRun) -> list[fx.GraphModule]:
    return [graph.joint.graph for graph in run.graphs if graph.joint is not None]
