"""Real runs of functions around which there is more than tensors: what others made is left alone,
what each call draws or counts is the same in every run, or the check says that it is not.
"""

from __future__ import annotations

import copy
import functools
import logging
import queue
import random
import sqlite3
import tempfile
import threading
import types
import weakref
from collections import Counter, UserDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from pytest_fxregion.call import Call
from pytest_fxregion.checks.repeats import not_repeated
from pytest_fxregion.errors import CheckError, FxRegionError
from pytest_fxregion.execution import execute
from tests.unit.test_harness import harness
from tests.unit.test_objects import (
    Disguised,
    Frozen,
    Guarded,
    Needy,
    Trap,
    Unspeakable,
    WithoutDictionary,
)


class Proxy:
    """Has the attributes of another object, which gets those that are set."""

    def __init__(self, around: object) -> None:
        object.__setattr__(self, "_around", around)

    def __getattr__(self, key: str) -> Any:
        return getattr(object.__getattribute__(self, "_around"), key)

    def __setattr__(self, key: str, value: Any) -> None:
        setattr(self._around, key, value)


class Equal:
    """Compares as what it holds does, element by element."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __eq__(self, other: object) -> Any:
        return self.values == other

    __hash__ = None  # type: ignore[assignment]


class PerThread(threading.local):
    def __init__(self) -> None:
        self.tensor = torch.ones(2)


class Holder:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


@functools.lru_cache
def looked_up(key: int) -> int:
    return key


def cyclic() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


def zoo() -> dict[str, Any]:
    table = sqlite3.connect(":memory:")
    return {
        "array": Equal(numpy.ones(2)),
        "class": Unspeakable(),
        "connection": table,
        "context": ContextVar[int]("context"),
        "counter": Counter("ab"),
        "cursor": table.cursor(),
        "cyclic": cyclic(),
        "disguised": Disguised(),
        "file": tempfile.TemporaryFile(),
        "frozen": Frozen(1),
        "generator": (i for i in range(3)),
        "guarded": Guarded(),
        "lock": threading.RLock(),
        "logger": logging.getLogger("zoo"),
        "lru_cache": looked_up,
        "mapping": types.MappingProxyType({"t": torch.ones(2)}),
        "method": [].append,
        "needy": Needy(1),
        "partial": functools.partial(looked_up, 1),
        "per_thread": PerThread(),
        "proxy": Proxy(Holder(tensor=torch.ones(2))),
        "proxy_of_a_tensor": Proxy(torch.ones(2)),
        "queue": queue.Queue[int](),
        "tensor": Equal(torch.ones(2)),
        "thread": threading.Thread(),
        "trap": Trap(),
        "user_dict": UserDict(t=torch.ones(2)),
        "weak_keys": weakref.WeakKeyDictionary[Any, Any](),
        "weak": weakref.ref(looked_up),
        "without": WithoutDictionary(),
    }


def around(holder: Any) -> Callable[..., Any]:
    return lambda x: x * holder.w


def as_argument(_holder: Any) -> Callable[..., Any]:
    return lambda x, holder: x * holder.w


class Module(nn.Module):
    def __init__(self, holder: Any) -> None:
        super().__init__()
        self.holder = holder

    def forward(self, x: Tensor) -> Any:
        return x * self.holder.w


@pytest.mark.parametrize("kind", [around, as_argument, Module])
def test_a_run_goes_past_objects_of_every_kind_and_leaves_them_as_they_are(kind: Any) -> None:
    animals = zoo()
    deep: list[Any] = [1]
    for _ in range(2000):
        deep = [deep]
    holder: Any = Holder(**animals, deep=deep, every=list(animals.values()), w=torch.ones(2))
    held = dict(vars(holder))
    given = [holder] if kind is as_argument else []
    run = harness()(kind(holder), torch.ones(2, requires_grad=True), *given)
    run.check_numerics()
    assert vars(holder).keys() == held.keys()
    assert all(vars(holder)[key] is value for key, value in held.items())
    assert all(one is other for one, other in zip(holder.every, animals.values(), strict=True))
    animals["file"].close()


class Drawing(nn.Module):
    def __init__(self, generator: Any) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, x: Tensor) -> Any:
        return x * self.generator.random()


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
@pytest.mark.parametrize(
    "draw",
    [
        Drawing(random.Random(0)),
        Drawing(numpy.random.default_rng(0)),
        lambda x: x * random.random(),
        lambda x: x * float(numpy.random.rand()),
    ],
    ids=["python", "numpy", "python's own", "numpy's own"],
)
def test_what_is_drawn_without_torch_is_the_same_in_every_run(draw: Any) -> None:
    random.seed(3)
    expected = random.Random(3).random()
    run = harness()(draw, torch.ones(2))
    run.check_numerics(rtol=1e-6)
    assert random.random() == expected


def test_a_function_that_counts_in_what_is_not_put_back_cannot_be_checked() -> None:
    """Runs with moved roundings would differ by as much, so that everything would be allowed."""
    calls: list[int] = []

    def counting(x: Tensor) -> Tensor:
        calls.append(1)
        return x * len(calls)

    run = harness()(counting, torch.ones(20))
    with pytest.raises(CheckError, match="eager does not give the same twice") as found:
        run.check_numerics()
    assert "\n  output: differs by " in str(found.value)
    calls.clear()

    def slowly(x: Tensor) -> Tensor:  # eager is as far from float64 as from what is compiled
        calls.append(1)
        return x * (20 + len(calls))

    def exactly(x: Tensor) -> tuple[Tensor, Tensor, int]:
        calls.append(1)
        return x, torch.zeros(2, dtype=torch.long) + len(calls), len(calls)

    for changing, name in (
        (slowly, "output"),
        (exactly, r"output\[1\]"),
        (exactly, r"output\[2\]"),
    ):
        run = harness()(changing, torch.ones(20))
        with pytest.raises(CheckError, match=rf"same twice[\s\S]*  {name}: differs by \d"):
            run.check_numerics()


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
@pytest.mark.parametrize(
    "draw",
    [lambda x: x * (1 + random.random()), lambda x: x * (1 + float(numpy.random.rand()))],
    ids=["python", "numpy"],
)
def test_what_a_test_draws_between_a_run_and_its_check_is_no_difference(draw: Any) -> None:
    run = harness()(draw, torch.ones(2))
    drawn = random.random(), numpy.random.rand()
    state = random.getstate()
    again, wide = run.eager_again(), run.reference_again()
    assert torch.equal(again["output"], run.eager.values["output"])
    assert run.reference is not None
    assert torch.equal(wide["output"], run.reference.values["output"])
    assert random.getstate() == state
    assert drawn != (random.random(), numpy.random.rand())


class Registering(nn.Linear):
    """Registers in every call what modules keep in tables that every module has."""

    def forward(self, x: Tensor) -> Tensor:
        self.register_buffer("mean", x.detach().mean(0), persistent=False)
        self.register_forward_hook(lambda module, inputs, output: output * 2)
        return super().forward(x)


class Exchanging(nn.Linear):
    """Gives its parameters other data: a part, in another dtype; writes to what one has left."""

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        self.weight.data = self.weight.data[:1].double()
        left = self.bias.detach()
        self.bias.data = self.bias.data.clone()
        left.add_(1)
        return result


def test_hooks_and_buffers_that_a_call_registers_are_gone_afterwards() -> None:
    module = Registering(2, 2)
    before = {key: copy.copy(value) for key, value in vars(module).items()}
    execute(Call(module, (torch.ones(3, 2),), {}), seed=0, backward=True)
    assert vars(module) == before


def test_parameters_lie_where_they_lay_after_a_call_that_exchanged_their_data() -> None:
    module = Exchanging(2, 2)
    weight, bias = (parameter.detach() for parameter in module.parameters())
    values, other_values = weight.clone(), bias.clone()
    results = execute(Call(module, (torch.ones(3, 2),), {}), seed=0, backward=False)
    assert results.values["weight after the call"].dtype == torch.float64
    assert torch.equal(module.weight, values)
    assert torch.equal(module.bias, other_values)
    assert module.weight.dtype == torch.float32
    assert module.weight.data_ptr() == weight.data_ptr()
    assert module.bias.data_ptr() == bias.data_ptr()


class Counting(nn.Module):
    """Doubles what is in a sparse buffer."""

    counts: Tensor

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.register_buffer("counts", counts)

    def forward(self, x: Tensor) -> Tensor:
        self.counts.mul_(2)
        return x


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_sparse_buffer_is_put_back(layout: torch.layout) -> None:
    module = Counting(torch.eye(3).to_sparse(layout=layout))
    results = execute(Call(module, (torch.ones(3),), {}), seed=0, backward=False)
    assert torch.equal(results.values["counts after the call"].to_dense(), 2 * torch.eye(3))
    assert torch.equal(module.counts.to_dense(), torch.eye(3))


def test_a_module_whose_parameters_have_no_shape_yet_is_refused_by_name() -> None:
    module = nn.Sequential(nn.LazyLinear(2))
    with pytest.raises(FxRegionError, match="'weight' of a LazyLinear has no shape"):
        execute(Call(module, (torch.ones(3, 2),), {}), seed=0, backward=False)


def test_a_result_that_is_all_rounding_of_sums_in_no_fixed_order_can_be_checked() -> None:
    """As additions by atomics on a GPU: here the order is another one in each call."""
    calls: list[int] = []
    terms = torch.randn(64, generator=torch.Generator().manual_seed(0)) * 1e3

    def residual(x: Tensor) -> Tensor:
        total = torch.zeros_like(x[0])
        calls.append(1)
        parts = list(x.unbind())
        first = len(calls) % 8 * 8
        for part in (*parts[first:], *parts[:first]):
            total = total + part
        return total - x.sum()

    run = harness()(residual, terms)
    run._hold_eager_to_itself()
    assert not_repeated(run.eager.values, run.eager_again())


def test_arrays_among_arguments_are_copied_and_compared() -> None:
    def written(x: Tensor, array: Any, every: list[Any]) -> Tensor:
        array += 1
        return x * torch.as_tensor(array) + len(every)

    array = numpy.ones(4, dtype=numpy.float32)[::2]
    others = [array[::-1], numpy.array(["text"]), numpy.array([1.0], dtype=">f8")]
    run = harness()(written, torch.ones(2, requires_grad=True), array, others)
    run.check_numerics()
    assert run.regional.values["array after the call"].tolist() == [2, 2]
    assert array.tolist() == [1, 1]


def test_a_function_may_count_what_it_does_not_use() -> None:
    calls: list[int] = []

    def counting(x: Tensor) -> Tensor:
        calls.append(1)
        return x.sin()

    harness()(counting, torch.ones(20)).check_numerics()
    assert len(calls) > 2
