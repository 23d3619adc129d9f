"""One call of the function under test: what is copied, named, compared and put back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

from pytest_fxregion.call import Call, named_leaves, widened
from pytest_fxregion.errors import CheckError
from pytest_fxregion.execution import PrecisionWatch, Results, draw_cotangents, execute


def leaf(*shape: int) -> Tensor:
    return torch.linspace(1, 2, torch.Size(shape).numel()).reshape(shape).requires_grad_()


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    return Call(function, args, kwargs)


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Results:
    return execute(Call(function, args, kwargs), seed=0, backward=True)


def from_ones(function: Callable[..., Any], *args: Any) -> Results:
    """Run it backward from a gradient of ones for its only output."""
    ones = [torch.ones(2)]
    return execute(Call(function, args, {}), seed=0, backward=True, grad_outputs=ones)


GLOBAL_MODULE = nn.Linear(2, 2)
GLOBAL_TENSOR = torch.ones(2, requires_grad=True)


def in_the_middle(x: Tensor) -> Tensor:
    return x * GLOBAL_TENSOR


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


class Scale(nn.Module):
    """Multiplies with a parameter, counts its calls three ways and keeps the last input."""

    count: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.last = x.detach()
        self.calls += 1
        return x * self.factor * self.calls

    def halved(self, x: Tensor) -> Tensor:
        half: Tensor = self(x) / 2
        return half


# --- names ---


def test_results_are_named_by_their_place_in_nested_containers() -> None:
    def function(inputs: dict[str, list[Tensor]], pair: Pair) -> dict[str, Any]:
        total = inputs["a"][0] + inputs["a"][1] * pair.left
        return {"total": total, "more": [total * 2, (total * 3, 7)]}

    found = run(function, {"a": [leaf(2), leaf(2)]}, pair=Pair(leaf(2), torch.ones(2)))
    assert list(found.values) == [
        "output['total']",
        "output['more'][0]",
        "output['more'][1][0]",
        "output['more'][1][1]",
        "gradient of inputs['a'][0]",
        "gradient of inputs['a'][1]",
        "gradient of pair.left",
    ]
    assert found.values["output['more'][1][1]"] == 7


def test_arguments_have_their_parameters_names() -> None:
    def function(x: Tensor, /, y: Tensor, *rest: Tensor, z: Tensor, **more: Tensor) -> Tensor:
        return x + y + sum(rest) + z + sum(more.values())

    found = run(function, leaf(1), leaf(1), leaf(1), leaf(1), z=leaf(1), extra=leaf(1), x=leaf(1))
    assert list(found.gradients) == ["x", "y", "rest[0]", "rest[1]", "z", "extra", "more['x']"]


def test_a_function_without_signature_has_numbered_arguments() -> None:
    assert list(run(torch.add, leaf(2), other=leaf(2)).gradients) == ["args[0]", "other"]


def test_a_tensor_passed_twice_is_one_leaf() -> None:
    x = leaf(2)
    found = from_ones(lambda a, b: a * b, x, x)
    for gradient in (found.gradients["a"], found.gradients["b"]):
        assert torch.equal(gradient, 2 * x)
    copied = call(lambda a, b: a * b, x, x)
    assert named_leaves(copied) == {id(x): "a"}


# --- what a function brings along ---


def as_module(model: Scale) -> Callable[..., Any]:
    return model


def as_bound_method(model: Scale) -> Callable[..., Any]:
    return model.halved


def as_closure(model: Scale) -> Callable[..., Any]:
    return lambda x: model(x)


def as_closure_in_a_list(model: Scale) -> Callable[..., Any]:
    models = [model]
    return lambda x: models[0](x)


def as_closure_of_a_helper(model: Scale) -> Callable[..., Any]:
    def helper(x: Tensor) -> Any:
        return model(x)

    return lambda x: helper(x)


def as_partial(model: Scale) -> Callable[..., Any]:
    return functools.partial(lambda model, x: model(x), model)


def as_default(model: Scale) -> Callable[..., Any]:
    def function(x: Tensor, model: Scale = model) -> Any:
        return model(x)

    return function


@pytest.mark.parametrize(
    ("reached", "prefix"),
    [
        (as_module, ""),
        (as_bound_method, ""),
        (as_closure, "model."),
        (as_closure_in_a_list, "models[0]."),
        (as_closure_of_a_helper, "model."),
        (as_partial, "model."),
        (as_default, "model."),
    ],
)
def test_a_module_is_found_compared_and_left_as_it_was(
    reached: Callable[[Scale], Callable[..., Any]], prefix: str
) -> None:
    model = Scale()
    model.factor.grad = torch.tensor([5.0, 5.0])
    function = reached(model)
    first, second = run(function, leaf(2)), run(function, leaf(2))
    assert f"{prefix}factor" in first.gradients
    assert first.values[f"{prefix}count after the call"] == 1
    assert torch.equal(first.values[f"{prefix}last after the call"], leaf(2))
    assert first.values[f"{prefix}calls after the call"] == 1
    for name, value in first.values.items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(second.values[name])), name
    assert model.factor.grad.tolist() == [5.0, 5.0]
    assert model.factor.tolist() == [2.0, 3.0]
    assert (model.count.item(), model.last.tolist(), model.calls) == (0, [0, 0], 0)


def test_modules_as_arguments_are_named_by_the_argument() -> None:
    def function(models: list[nn.Module], x: Tensor, *, last: nn.Module) -> Any:
        return last(models[0](x))

    found = run(function, [nn.Linear(2, 2)], leaf(2), last=nn.Linear(2, 2, bias=False))
    assert set(found.gradients) == {"x", "models[0].weight", "models[0].bias", "last.weight"}


def test_a_module_reached_twice_is_named_once() -> None:
    model = Scale()
    assert call(lambda a, b: model(a(b)), model, leaf(2)).reached().modules == {"model": model}


def test_globals_that_the_function_names_are_found() -> None:
    found = run(lambda x: GLOBAL_MODULE(in_the_middle(x)), leaf(2))
    assert set(found.gradients) == {
        "x",
        "GLOBAL_MODULE.weight",
        "GLOBAL_MODULE.bias",
        "GLOBAL_TENSOR",
    }
    assert GLOBAL_TENSOR.grad is None
    assert GLOBAL_MODULE.weight.grad is None


def test_tensors_in_a_closure_are_compared_and_put_back() -> None:
    weight, counter = leaf(2), torch.zeros(1)

    def function(x: Tensor) -> Tensor:
        counter.add_(1)
        return x * weight

    found = run(function, leaf(2))
    assert set(found.gradients) == {"x", "weight"}
    assert found.values["counter after the call"].tolist() == [1]
    assert weight.grad is None
    assert counter.tolist() == [0]


def test_a_closure_that_is_not_filled_yet_is_no_error() -> None:
    def function(x: Tensor) -> Tensor:
        return later(x) if x.numel() > 5 else x * 2

    assert set(run(function, leaf(2)).gradients) == {"x"}

    def later(x: Tensor) -> Tensor:
        return x


def test_the_state_is_put_back_after_an_exception() -> None:
    class Failing(Scale):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise ArithmeticError

    model = Failing()
    with pytest.raises(ArithmeticError):
        run(model, leaf(2))
    assert (model.count.item(), model.calls) == (0, 0)


def test_a_parameter_that_is_written_to_is_a_result() -> None:
    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2, bias=False)

        def forward(self, x: Tensor) -> Any:
            with torch.no_grad():
                self.inner.weight.fill_(3.0)
            return self.inner(x)

    model = Clipped()
    before = model.inner.weight.tolist()
    assert run(model, leaf(2)).values["inner.weight after the call"].tolist() == [[3, 3], [3, 3]]
    assert model.inner.weight.tolist() == before
    assert "weight after the call" not in run(nn.Linear(2, 2), leaf(2)).values


def test_an_attribute_that_a_module_replaces_is_a_result() -> None:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache: list[Tensor] = []
            self.last: dict[str, Any] = {}

        def forward(self, x: Tensor) -> Tensor:
            self.cache.append(x.detach())
            self.last = {"x": x.detach() * 2, "length": 2, "text": "no number"}
            return x * 2

    growing = Growing()
    found = run(nn.Sequential(growing), leaf(2))
    assert [name for name in found.values if "after" in name] == [
        "0.cache[0] after the call",
        "0.last['x'] after the call",
        "0.last['length'] after the call",
    ]
    assert found.values["0.last['x'] after the call"].tolist() == [2, 4]
    assert (growing.cache, growing.last) == ([], {})


def optimizer_as_method(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    return optimizer.step


def optimizer_as_closure(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    return lambda: optimizer.step()


@pytest.mark.parametrize(
    ("reached", "prefix"), [(optimizer_as_method, ""), (optimizer_as_closure, "optimizer")]
)
def test_an_optimizers_parameters_and_state_are_results_and_put_back(
    reached: Callable[[torch.optim.Optimizer], Callable[..., Any]], prefix: str
) -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.tensor([1.0, 2.0])
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    for _ in range(2):  # each time from the same state
        found = run(reached(optimizer))
        assert found.values[f"{prefix}.params[0] after the call"].tolist() == [0, -1]
        momentum = found.values[f"{prefix}.state[0]['momentum_buffer'] after the call"]
        assert momentum.tolist() == [1, 2]
        assert weight.tolist() == [1, 1]
        assert weight.grad.tolist() == [1, 2]
        assert not optimizer.state


def test_a_step_of_training_starts_from_the_same_state_each_time() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss: Tensor = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    x = torch.ones(3, 2)
    first, second = run(step, x), run(step, x)
    assert "model.weight after the call" in first.values
    assert "optimizer.state[1]['exp_avg'] after the call" in first.values
    for name, value in first.values.items():
        assert torch.equal(value, second.values[name]), name
    wide = execute(call(step, x).in_float64(), seed=0, backward=True)
    assert wide.values.keys() == first.values.keys()
    assert {v.dtype for n, v in wide.values.items() if "step" not in n} == {torch.float64}
    assert torch.allclose(
        first.values["model.weight after the call"].double(),
        wide.values["model.weight after the call"],
    )


# --- objects that hold tensors ---


@dataclass
class Batch:
    x: Tensor
    more: list[Tensor]
    scale: float = 2.0


class Cache:
    """A cache as decoders have it: it is written to in place, and grows."""

    def __init__(self) -> None:
        self.keys = torch.zeros(2, 2)
        self.last: Tensor | None = None
        self.length = 0

    def update(self, x: Tensor) -> Tensor:
        self.keys[self.length] = x
        self.last = x * 2
        self.length += 1
        return self.keys


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Cache
    w: Tensor


def test_objects_among_arguments_and_results_are_looked_into() -> None:
    batch = Batch(leaf(2), [leaf(2)])
    found = run(lambda b: Batch(b.x * b.more[0], [b.x * b.scale], b.scale), batch)
    assert list(found.values) == [
        "output.x",
        "output.more[0]",
        "output.scale",
        "gradient of b.x",
        "gradient of b.more[0]",
    ]
    assert batch.x.grad is None


@pytest.mark.parametrize("is_argument", [True, False])
def test_what_an_object_is_made_to_hold_is_a_result_and_the_object_stays_as_it_was(
    is_argument: bool,
) -> None:
    cache = Frozen(Cache(), leaf(2))

    def written(x: Tensor, held: Frozen = cache) -> Tensor:
        return held.inner.update(x.detach()).clone() * held.w

    given = [cache] if is_argument else []
    for _ in range(2):
        found = run(written, leaf(2), *given)
        assert found.values["held.inner.keys after the call"].tolist() == [[1, 2], [0, 0]]
        assert found.values["held.inner.last after the call"].tolist() == [2, 4]
        assert found.values["held.inner.length after the call"] == 1
        assert "gradient of held.w" in found.values
        assert (cache.inner.length, cache.inner.last) == (0, None)
        assert not cache.inner.keys.any()
        assert cache.w.grad is None


@pytest.mark.parametrize("is_argument", [True, False])
def test_an_object_may_be_empty_at_first(is_argument: bool) -> None:
    cache = Cache()
    del cache.keys

    def written(x: Tensor, held: Cache = cache) -> Tensor:
        if held.length:
            x = x * 100
        held.keys = torch.zeros(1, 2)
        return held.update(x.detach()) * x

    given = [cache] if is_argument else []
    for _ in range(2):
        found = run(written, leaf(2), *given)
        assert found.values["held.keys after the call"].tolist() == [[1, 2]]
        assert found.values["held.length after the call"] == 1
        assert vars(cache) == {"last": None, "length": 0}


def test_what_a_container_is_made_to_hold_is_a_result() -> None:
    def grow(caches: list[Tensor], x: Tensor) -> Tensor:
        caches[0] = torch.cat((caches[0], x))
        caches.append(x)
        return x * 2

    caches = [torch.zeros(1)]
    found = run(grow, caches, torch.ones(1))
    assert found.values["caches[0] after the call"].tolist() == [0, 1]
    assert found.values["caches[1] after the call"].tolist() == [1]
    assert len(caches) == 1
    emptied = run(lambda held, x: held.clear() or x, {"a": torch.ones(1)}, leaf(1))
    assert emptied.values["held['a'] after the call"] is None


def test_objects_that_hold_each_other_are_looked_into_once() -> None:
    class Node:
        def __init__(self) -> None:
            self.value = leaf(2)
            self.others: list[Node] = []

    nodes = [Node() for _ in range(12)]  # 12! ways lead through them
    for node in nodes:
        node.others = [other for other in nodes if other is not node]
    found = run(lambda n, x: x * n.value, nodes[0], leaf(2))
    assert [name for name in found.gradients if "value" in name] == ["n.value"]


def test_an_object_that_holds_itself_or_no_tensor_is_a_leaf() -> None:
    class Node:
        def __init__(self, value: Any) -> None:
            self.value = value
            self.me = self

    assert list(run(lambda n, x: x * n.value, Node(2), leaf(2)).gradients) == ["x"]
    assert list(run(lambda n, x: x * n.value, Node(leaf(2)), leaf(2)).gradients) == ["n.value", "x"]


class Trainer:
    """What people write around a model: an object with a method that makes one step."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0, momentum=0.5)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.steps = 0

    def step(self, x: Tensor) -> Tensor:
        loss: Tensor = self.model(x).square().sum()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.steps += 1
        return loss.detach()

    def __call__(self, x: Tensor) -> Tensor:
        return self.step(x)


# A copied optimizer's step is not the one that its scheduler has wrapped.
@pytest.mark.filterwarnings("ignore:Seems like .optimizer.step:UserWarning")
@pytest.mark.parametrize("reached", [lambda t: t, lambda t: t.step, lambda t: lambda x: t.step(x)])
def test_an_object_around_a_model_is_left_as_it_was(
    reached: Callable[[Trainer], Callable[..., Any]],
) -> None:
    trainer = Trainer()
    before = trainer.model.weight.tolist()
    function = reached(trainer)
    prefix = "t." if getattr(function, "__name__", "") == "<lambda>" else ""
    x = torch.ones(3, 2)
    wide = call(function, x).in_float64()
    for each in (call(function, x), call(function, x), wide):
        found = execute(each, seed=0, backward=True).values
        assert found[f"{prefix}steps after the call"] == 1
        assert found[f"{prefix}scheduler.last_epoch after the call"] == 1
        assert f"{prefix}model.weight after the call" in found
        assert f"{prefix}optimizer.state[0]['momentum_buffer'] after the call" in found
        assert trainer.model.weight.tolist() == before
        assert trainer.model.weight.dtype == torch.float32
        assert (trainer.steps, trainer.scheduler.last_epoch) == (0, 0)
        assert trainer.optimizer.param_groups[0]["lr"] == 1.0
        assert not trainer.optimizer.state


# --- hooks ---


def test_hooks_on_arguments_and_parameters_are_called_in_every_precision() -> None:
    model = nn.Linear(2, 2, bias=False)
    model.weight.register_hook(lambda gradient: gradient * 0)
    x, w = leaf(2), leaf(2)
    x.register_hook(lambda gradient: gradient * 0)
    seen: list[Tensor] = []
    w.register_post_accumulate_grad_hook(seen.append)
    given = call(lambda x, w: model(x) * w, x, w)
    for each in (given, given.in_float64()):
        found = execute(each, seed=0, backward=True)
        assert not found.gradients["x"].any()
        assert not found.gradients["model.weight"].any()
        assert found.gradients["w"].any()
    assert [tensor.dtype for tensor in seen] == [torch.float32, torch.float64]


# --- arguments ---


def test_inference_tensors_are_copied_and_compared() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
        found = run(lambda x: x.mul_(3) + 1, x)
    assert found.values["x after the call"].tolist() == [3, 3]
    assert x.tolist() == [1, 1]


def test_arguments_stay_as_they_are() -> None:
    x, w = torch.ones(2), leaf(2)

    def function(x: Tensor, w: Tensor) -> Tensor:
        x.mul_(3)
        return x * w

    found = from_ones(function, x, w)
    assert x.tolist() == [1, 1]
    assert w.grad is None
    assert found.values["x after the call"].tolist() == [3, 3]
    assert "w after the call" not in found.values
    assert found.gradients["w"].tolist() == [3, 3]


def test_outputs_are_kept_as_they_were_when_the_call_returned() -> None:
    hold = []

    def function(x: Tensor) -> Tensor:
        y = x * 2
        hold.append(y)
        return y

    found = execute(call(function, torch.ones(2)), seed=0, backward=False)
    hold[0].zero_()
    assert found.values["output"].tolist() == [2, 2]


def test_outputs_in_the_memory_of_others_are_said_with_their_place() -> None:
    model = nn.Linear(2, 2)

    def function(x: Tensor) -> list[Tensor]:
        h = x * 2
        return [x, x[1:], h, h[1].view(2), model.weight, x + 1]

    found = run(function, torch.ones(2, 2)).values
    shared = {name: value for name, value in found.items() if " in the memory of " in name}
    assert shared == {
        "output[0] in the memory of x": 0,
        "output[1] in the memory of x": 2,
        "output[3] in the memory of output[2]": 2,
        "output[4] in the memory of model.weight": 0,
    }


def test_the_generators_state_is_a_result_where_numbers_are_drawn() -> None:
    name = "random state of cpu after the call"
    once = run(lambda x: x * torch.rand(2), torch.ones(2)).values
    again = run(lambda x: x * torch.rand(2), torch.ones(2)).values
    twice = run(lambda x: x * torch.rand(2) * torch.rand(2), torch.ones(2)).values
    assert once[name] == again[name] != twice[name]
    assert name not in run(lambda x: x * 2, torch.ones(2)).values


def test_inputs_that_are_no_leaves_become_leaves() -> None:
    start = leaf(2)
    found = from_ones(lambda x: x * x, start * 2)
    assert torch.equal(found.gradients["x"], 4 * start.detach())
    assert start.grad is None


@pytest.mark.parametrize(
    "made",
    [
        torch.ones(4, 8)[:, ::2],
        torch.ones(4, 8).t(),
        torch.ones(4, 1).expand(4, 3),
        torch.ones(1, 8)[:, ::2].expand(3, 4),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(3).expand(0, 3),
        torch.ones(()),
    ],
    ids=["gaps", "transposed", "expanded", "both", "channels_last", "empty", "scalar"],
)
def test_copies_keep_strides_and_are_not_taken_for_written(made: Tensor) -> None:
    seen = []
    found = run(lambda x: seen.append(x.stride()), made)
    assert seen == [made.stride()]
    assert list(found.values) == ["output"]


def test_windows_that_overlap_are_copied_apart() -> None:
    windows = torch.arange(5.0).unfold(0, 3, 1)
    assert torch.equal(run(lambda x: x * 1, windows).values["output"], windows)


def test_arguments_that_share_memory_share_it_in_the_copies() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    first, column = base[0], base[:, 1]

    def function(row: Tensor, columns: list[Tensor], other: Tensor) -> Tensor:
        row.mul_(10)
        return columns[0] + other

    found = run(function, first, [column], torch.ones(3))
    assert found.values["output"].tolist() == [11, 6, 10]
    assert found.values["row after the call"].tolist() == [0, 10, 20, 30]
    # Nobody wrote to it, but it has changed.
    assert found.values["columns[0] after the call"].tolist() == [10, 5, 9]
    assert "other after the call" not in found.values
    assert torch.equal(base, torch.arange(12.0).reshape(3, 4))


def test_leaves_that_share_memory_have_gradients_of_their_own() -> None:
    base = torch.ones(4)
    first, second = base[:2].requires_grad_(), base[2:].requires_grad_()
    found = from_ones(lambda a, b: a * 2 + b * 3, first, second)
    assert found.gradients["a"].tolist() == [2, 2]
    assert found.gradients["b"].tolist() == [3, 3]


def test_copies_have_what_was_set_on_the_tensor() -> None:
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    seen: list[dict[str, object]] = []

    def function(x: Tensor) -> Tensor:
        seen.append(dict(vars(x)))
        return x * 2

    execute(Call(function, (x,), {}), seed=0, backward=False)
    assert seen == [dict(vars(x))]
    assert seen[0]


def test_parameters_stay_parameters() -> None:
    kinds = []

    def function(w: Tensor) -> Tensor:
        kinds.append(type(w))
        return w * 2

    run(function, nn.Parameter(torch.ones(2)))
    assert kinds == [nn.Parameter]


# --- the backward ---


def test_cotangents_are_the_same_for_every_precision() -> None:
    (half,) = draw_cotangents([torch.ones(3, dtype=torch.bfloat16)], seed=1)
    (wide,) = draw_cotangents([torch.ones(3, dtype=torch.float64)], seed=1)
    (other,) = draw_cotangents([torch.ones(3, dtype=torch.float64)], seed=2)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, wide.bfloat16())
    assert not torch.equal(wide, other)
    (number,) = draw_cotangents([torch.ones(2, dtype=torch.complex128)], seed=1)
    assert number.is_complex()


def test_given_cotangents_are_used_in_order() -> None:
    def function(x: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
        return x * 2, 1, torch.ones(2), x * 3

    cotangents = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
    found = execute(call(function, leaf(2)), seed=0, backward=True, grad_outputs=cotangents)
    assert found.gradients["x"].tolist() == [2, 3]
    with pytest.raises(CheckError, match="1 gradients of outputs are there, and 2 results"):
        execute(call(function, leaf(2)), seed=0, backward=True, grad_outputs=cotangents[:1])


def test_no_backward_where_none_is_wanted_or_possible() -> None:
    assert not execute(call(lambda x: x * 2, leaf(2)), seed=0, backward=False).gradients
    assert not run(lambda x: x * 2, torch.ones(2)).cotangents
    assert not run(lambda x: None, leaf(2)).cotangents


def test_before_the_backward_names_and_outputs_are_told() -> None:
    told: list[tuple[dict[int, str], list[Any]]] = []
    model = Scale()
    execute(
        call(lambda x: (model(x), 3), leaf(2)),
        seed=0,
        backward=True,
        before_backward=lambda names, outputs: told.append((names, outputs)),
    )
    ((names, outputs),) = told
    assert sorted(names.values()) == ["model.factor", "x"]
    assert names[id(model.factor)] == "model.factor"
    assert len(outputs) == 2


def test_use_of_random_numbers_is_noticed_and_repeated() -> None:
    first = run(lambda x: x * torch.rand(2), leaf(2))
    second = run(lambda x: x * torch.rand(2), leaf(2))
    assert first.used_randomness
    assert torch.equal(first.values["output"], second.values["output"])
    assert not run(lambda x: x * 2, leaf(2)).used_randomness


def test_nothing_warns() -> None:
    def function(x: Tensor, scale: Tensor) -> Tensor:
        return x * scale * captured

    captured = leaf(2) * 2
    captured = captured.detach().requires_grad_() * 1  # a closure over what is no leaf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(function, leaf(2), torch.ones(2))


# --- tensor subclasses ---


def test_a_subclass_is_compared_by_the_tensors_that_it_is_made_of() -> None:
    x = TwoTensor(torch.ones(2), torch.full((2,), 3.0)).requires_grad_()
    found = run(lambda x: x * 2, x)
    assert list(found.values) == [
        "form of output",
        "output.a",
        "output.b",
        "form of gradient of x",
        "gradient of x.a",
        "gradient of x.b",
    ]
    assert found.values["form of output"] == (
        "TwoTensor of torch.float32 on cpu, shape (2,), strides (1,), with gradient"
    )
    assert found.values["output.b"].tolist() == [6, 6]
    cotangent: Any
    (cotangent,) = found.cotangents
    assert torch.equal(found.values["gradient of x.a"], 2 * cotangent.a)
    assert torch.equal(found.values["gradient of x.b"], 2 * cotangent.b)
    assert not torch.equal(cotangent.a, cotangent.b)


# --- in float64 ---


def wide_values(wide: Call) -> set[torch.dtype]:
    found = execute(wide, seed=0, backward=True)
    return {v.dtype for v in found.values.values() if isinstance(v, Tensor)}


def test_a_call_in_float64_widens_arguments_and_modules() -> None:
    model = nn.Linear(2, 2)
    wide = call(
        lambda m, xs, n: m(xs["x"]) * n, model, {"x": leaf(2)}, torch.tensor(3)
    ).in_float64()
    assert wide_values(wide) == {torch.float64}
    assert model.weight.dtype == torch.float32
    assert wide.args[2].dtype == torch.int64


@pytest.mark.parametrize("reached", [as_module, as_bound_method])
def test_the_function_itself_is_widened(reached: Callable[[Scale], Callable[..., Any]]) -> None:
    model = Scale()
    assert wide_values(call(reached(model), leaf(2)).in_float64()) == {torch.float64}
    assert model.factor.dtype == torch.float32
    assert model.calls == 0


def test_what_a_function_closes_over_is_float64_too() -> None:
    model = nn.Linear(2, 2)
    scale = torch.ones(2)

    def helper(x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(model(x)) * scale

    def function(x: torch.Tensor, again: bool = True) -> torch.Tensor:
        return function(helper(x), False) if again else helper(x)

    wide = call(function, leaf(2)).in_float64()
    assert wide.function(*wide.args).dtype is torch.float64
    assert model.weight.dtype is scale.dtype is torch.float32
    bound = call(functools.partial(function, again=False), leaf(2)).in_float64()
    assert bound.function(*bound.args).dtype is torch.float64


def test_what_is_passed_twice_is_one_object_in_float64_too() -> None:
    """Two leaves would have a part of the gradient each: a reference that allows anything."""
    x = leaf(2)
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    wide = call(lambda *given: None, x, x, first, second, first).in_float64()
    assert wide.args[0] is wide.args[1]
    assert wide.args[2] is wide.args[4]
    assert wide.args[2].weight is wide.args[3].weight


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.float32, torch.float64),
        (torch.bfloat16, torch.float64),
        (torch.complex64, torch.complex128),
        (torch.int32, torch.int32),
        (torch.bool, torch.bool),
    ],
    ids=str,
)
def test_widened_tensors(dtype: torch.dtype, wide: torch.dtype) -> None:
    tensor = torch.ones(2, dtype=dtype)
    assert widened(tensor).dtype == wide
    if dtype.is_floating_point or dtype.is_complex:
        assert widened(tensor.requires_grad_()).requires_grad
        assert widened(tensor).is_leaf


def test_the_lowest_precision_is_seen_wherever_it_is_used() -> None:
    def function(x: Tensor) -> Tensor:
        return x + x.bfloat16().double() + x.float()

    with PrecisionWatch() as watch:
        function(torch.ones(2, dtype=torch.float64))
    assert watch.lowest == torch.bfloat16
    with PrecisionWatch() as watch:
        torch.ones(2, dtype=torch.float64) * 2.5 + torch.arange(2)
    assert watch.lowest == torch.float64


def test_higher_order_operators_are_watched_like_any_other() -> None:
    def function(x: Tensor) -> Tensor:
        def one(t: Tensor) -> Tensor:
            return t.sin()

        chosen: Tensor = torch.cond(x.sum() > 0, one, one, (x,))
        return chosen

    with PrecisionWatch() as watch:
        function(torch.ones(2, dtype=torch.float64))
    assert watch.lowest == torch.float64
