"""The bound of each element: strict where rounding is small, and no tighter than rounding is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pytest_fxregion.call import Call
from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.numerics import compare
from pytest_fxregion.checks.roundings import MovedRoundings, Samples
from pytest_fxregion.execution import Again

EPSILON = torch.finfo(torch.float32).eps


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def judged(
    eager: Callable[..., Any], regional: Callable[..., Any], *inputs: Tensor, sampled: bool = True
) -> dict[str, Difference]:
    """Compare two functions, forward and backward, as a run compares eager and regional."""
    call = Call(eager, inputs, {})
    again = Again(call, 0, True, (), None)
    first = again.run()
    reference = Again(call.in_float64(), 0, True, (), None).run()
    found = compare(
        first,
        again.run(regional),
        reference,
        samples=Samples(again.run, 0) if sampled else None,
    )
    return {difference.name: difference for difference in found}


def wrong(*given: Any, **options: Any) -> list[str]:
    """Return the names of the results that are found wrong."""
    return [name for name, d in judged(*given, **options).items() if d.problem]


def gelu_as_written(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


def test_the_tail_of_an_activation_rounds_as_its_terms_do() -> None:
    tail = torch.linspace(-6, -1, 400).requires_grad_()
    assert wrong(functional.gelu, gelu_as_written, tail) == []
    assert wrong(functional.gelu, lambda x: gelu_as_written(x) * 1.0001, tail) != []


# --- a small element that is wrong beside a large one ---


def rows_of_all_sizes(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w) * 10.0 ** torch.arange(4, -4, -1).view(8, 1)


def smallest_row_wrong(x: Tensor, w: Tensor) -> Tensor:
    y = rows_of_all_sizes(x, w)
    return torch.cat([y[:7], y[7:] * 1.001])


def test_a_small_fault_beside_large_elements_is_found_only_by_the_bound_of_each() -> None:
    inputs = drawn(8, 16), drawn(16, 8, seed=1)
    assert not wrong(rows_of_all_sizes, smallest_row_wrong, *inputs, sampled=False)
    found = judged(rows_of_all_sizes, smallest_row_wrong, *inputs)
    assert found["output"].problem is not None
    assert found["output"].where[0] == 7
    assert found["gradient of x"].where[0] == 7
    assert found["gradient of x"].problem is not None


def test_an_element_that_moved_roundings_make_nan_is_held_to_what_the_whole_is() -> None:
    def roots(x: Tensor) -> Tensor:
        return (x / 3 * 3 - x + torch.tensor([0.0, 1.0])).sqrt()

    def wrong_at_zero(x: Tensor) -> Tensor:
        return roots(x) + torch.tensor([0.5, 0.0])

    x = torch.tensor([1.0, 2.0])
    assert wrong(roots, wrong_at_zero, x, sampled=False) == ["output"]
    assert wrong(roots, wrong_at_zero, x) == ["output"]
    assert wrong(roots, roots, x) == []


def test_a_fault_in_one_gradient_of_a_vector_is_found() -> None:
    """A vector has no rows whose largest value could be taken for a scale."""

    def scaled(x: Tensor) -> Tensor:
        return x.exp()

    def wrong_at_the_small_end(x: Tensor) -> Tensor:
        return torch.where(x < -11, x.exp() * 1.0001, x.exp())

    x = torch.linspace(-12, 12, 50).requires_grad_()
    assert not wrong(scaled, wrong_at_the_small_end, x, sampled=False)
    assert wrong(scaled, wrong_at_the_small_end, x) == ["output", "gradient of x"]


# --- the same function, computed otherwise ---


def softmax_by_hand(x: Tensor, w: Tensor) -> Tensor:
    scores = x @ w
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers * (1 / powers.sum(-1, keepdim=True))


def norm_by_hand(x: Tensor, w: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return ((x - mean) * (variance + 1e-5).rsqrt()) @ w


def batch_norm(x: Tensor) -> Tensor:
    mean, variance = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    return functional.batch_norm(x, mean, variance, training=True)


def batch_norm_by_hand(x: Tensor) -> Tensor:
    mean = x.flip(0).mean(0)
    return (x - mean) * ((x - mean).square().mean(0) + 1e-5).rsqrt()


def in_two_halves(x: Tensor, w: Tensor) -> Tensor:
    half = x.shape[1] // 2
    return (x[:, half:] @ w[half:] + x[:, :half] @ w[:half]).tanh()


def gelu_by_hand(x: Tensor, w: Tensor) -> Tensor:
    h = x @ w
    return h * (torch.erf(h * 0.70710678118654752) + 1) * 0.5


def losses_by_hand(x: Tensor, w: Tensor) -> Tensor:
    scores = x @ w
    target = torch.arange(len(scores)) % scores.shape[1]
    return torch.logsumexp(scores, 1).sum() - scores.gather(1, target.view(-1, 1)).sum()


REORDERED: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, w: (x @ w).softmax(-1), softmax_by_hand),
    "layer norm": (lambda x, w: functional.layer_norm(x, x.shape[-1:]) @ w, norm_by_hand),
    "halves": (lambda x, w: (x @ w).tanh(), in_two_halves),
    "gelu": (lambda x, w: functional.gelu(x @ w), gelu_by_hand),
    "loss": (
        lambda x, w: functional.cross_entropy(
            x @ w, torch.arange(len(x)) % w.shape[1], reduction="sum"
        ),
        losses_by_hand,
    ),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", REORDERED)
def test_another_order_of_the_same_operations_passes(name: str, seed: int) -> None:
    inputs = drawn(16, 64, seed=seed), drawn(64, 32, seed=100 + seed)
    assert not wrong(*REORDERED[name], *inputs)


@pytest.mark.parametrize("name", REORDERED)
def test_an_error_of_a_few_parts_in_ten_thousand_does_not(name: str) -> None:
    eager, other = REORDERED[name]

    def faulty(x: Tensor, w: Tensor) -> Any:
        return other(x, w) * (1 + 3e-4)

    inputs = drawn(16, 64), drawn(64, 32, seed=1)
    assert "output" in wrong(eager, faulty, *inputs)


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_norm_rounds_inside_as_far_as_its_batch_is_from_zero(seed: int) -> None:
    """It writes its running statistics, which no schema says; its other operands are moved."""
    x = (drawn(16, 64, seed=seed) + 20).detach().requires_grad_()
    assert not wrong(batch_norm, batch_norm_by_hand, x)


def test_sums_that_cancel_may_be_off_by_the_rounding_of_their_terms() -> None:
    def ordered(x: Tensor) -> Tensor:
        return x.sum(-1)

    def from_the_end(x: Tensor) -> Tensor:
        total = x[:, -1]
        for i in range(x.shape[1] - 2, -1, -1):
            total = total + x[:, i]
        return total

    x = drawn(8, 200).detach()
    x = torch.cat([x, -x.roll(1, 0), x.roll(1, 0) - x], 1)
    assert not wrong(ordered, from_the_end, x)


# --- what is moved ---


def moved(function: Callable[..., Any], *inputs: Tensor, seed: int = 0) -> Any:
    with MovedRoundings(seed):
        return function(*inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t().clone().flip(0)[1:],
        lambda x: torch.cat([x.relu(), -x, x.abs()]),
        lambda x: torch.where(x > 0, x, 0.0).clamp(-1, 1),
        lambda x: x.sort(0).values.gather(0, torch.zeros(1, 4, dtype=torch.long)),
        lambda x: x.to(torch.float64),
        lambda x: (x > 0).sum(),
        lambda x: torch.ones_like(x).copy_(x),
        lambda x: functional.max_pool2d(x.view(1, 1, 3, 4), 2),
    ],
)
def test_what_does_not_round_is_not_moved(function: Callable[[Tensor], Tensor]) -> None:
    x = drawn(3, 4).detach()
    assert torch.equal(moved(function, x), function(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_a_result_is_moved_by_its_dtypes_epsilon(dtype: torch.dtype) -> None:
    x = drawn(50).detach().to(dtype)
    apart = (moved(torch.mul, x, x) - x * x).abs() / (x * x).abs()
    assert 0.4 * torch.finfo(dtype).eps < apart.max() < 3 * torch.finfo(dtype).eps


def test_a_cast_that_rounds_is_moved() -> None:
    x = drawn(50).detach()
    assert not torch.equal(moved(lambda x: x.bfloat16(), x), x.bfloat16())


def test_a_reduction_is_moved_as_far_as_its_terms_round() -> None:
    large = torch.tensor([[1e6, -1e6, 1.0]])
    apart = max(abs(moved(lambda x: x.sum(1), large, seed=s).item() - 1) for s in range(8))
    assert 0.05 < apart < 1
    assert large.tolist() == [[1e6, -1e6, 1.0]]


def test_the_seed_decides() -> None:
    x = drawn(40).detach()
    assert torch.equal(moved(torch.exp, x, seed=3), moved(torch.exp, x, seed=3))
    assert not torch.equal(moved(torch.exp, x, seed=3), moved(torch.exp, x, seed=4))


def test_random_numbers_stay_those_of_the_calls_own_seed() -> None:
    again = Again(
        Call(lambda x: functional.dropout(x) * 1, (torch.ones(64),), {}), 7, False, (), None
    )
    first, (sample,) = again.run(), Samples(again.run, 0)(1)
    assert torch.equal(first["output"] == 0, sample["output"] == 0)
    assert torch.allclose(first["output"], sample["output"])


def test_views_values_in_place_and_what_was_written_stay_what_they_are() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        view = y[1:]
        view.mul_(x[1:])
        return y + 1

    again = Again(Call(function, (torch.ones(3), torch.ones(3)), {}), 0, False, (), None)
    (sample,) = Samples(again.run, 0)(1)
    assert list(sample) == ["output", "y after the call"]
    assert torch.allclose(sample["y after the call"], torch.ones(3))


def test_a_call_that_does_not_stand_it_gives_no_runs() -> None:
    def exact(x: Tensor) -> Tensor:
        assert torch.equal(x * 1, x)
        return x * 2

    again = Again(Call(exact, (drawn(8).detach(),), {}), 0, False, (), None)
    assert not Samples(again.run, 0)(4)


def test_runs_are_made_only_where_an_element_is_in_doubt() -> None:
    asked: list[int] = []

    def samples(count: int) -> list[dict[str, Any]]:
        asked.append(count)
        return [{"output": torch.ones(3) + EPSILON * 8}] * count

    eager, reference = {"output": torch.ones(3)}, {"output": torch.ones(3, dtype=torch.float64)}
    assert compare(eager, eager, reference, samples=samples)[0].problem is None
    assert asked == []
    off = {"output": torch.tensor([1e3, 1.0, 1.0])}
    eager = {"output": torch.tensor([1e3, 1.0, 1.0])}
    reference = {"output": torch.tensor([1e3, 1.0, 1.0 + 2e-5], dtype=torch.float64)}
    assert compare(eager, off, reference, samples=samples)[0].problem is None
    assert asked == []  # eager is as far off there
    reference = {"output": torch.tensor([1e3, 1.0, 1.0], dtype=torch.float64)}
    off = {"output": torch.tensor([1e3, 1.0, 1.0 + 1e-4])}
    assert compare(eager, off, reference, samples=samples)[0].problem is not None
    assert asked == [4, 32]
