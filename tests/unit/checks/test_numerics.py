"""The rule for numbers: each kind of fault is found, each clean case passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.numerics import Tolerance, compare

WIDE = {torch.complex64: torch.complex128}


def judge(eager: Any, regional: Any, reference: Any = None, **options: Any) -> Difference:
    """Compare one result; ``reference`` is its float64 value where there is one."""
    (difference,) = compare(
        {"output": eager},
        {"output": regional},
        None if reference is None else {"output": reference},
        **options,
    )
    return difference


def problem(*results: Any, **options: Any) -> str:
    """Return what is wrong, in words; empty if nothing is."""
    return judge(*results, **options).problem or ""


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return seeded numbers in the dtype, and the same before they were rounded to it."""
    wide = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reference = wide.to(WIDE.get(dtype, torch.float64))
    return reference.to(dtype), reference


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_results_pass_with_and_without_a_reference(dtype: torch.dtype) -> None:
    eager, reference = drawn(4, 5, dtype=dtype)
    assert not problem(eager, eager.clone(), reference)
    assert not problem(eager, eager.clone())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_rounding_passes(dtype: torch.dtype) -> None:
    eager, reference = drawn(4, 5, dtype=dtype)
    regional = eager * (1 + torch.finfo(dtype).eps)
    assert not problem(eager, regional, reference)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("with_reference", [True, False])
def test_one_wrong_element_is_found_with_its_place(
    dtype: torch.dtype, with_reference: bool
) -> None:
    eager, reference = drawn(4, 5, dtype=dtype)
    regional = eager.clone()
    regional[2, 3] += 1e-4 + 300 * torch.finfo(dtype).eps
    found = judge(eager, regional, reference if with_reference else None)
    assert "1 of 20 elements" in (found.problem or "")
    assert found.where == (2, 3)
    assert found.against == ("float64" if with_reference else "eager")


def test_an_error_of_eagers_own_size_passes_and_a_much_larger_one_does_not() -> None:
    reference = torch.ones(8, dtype=torch.float64)
    eager = torch.ones(8) + 1e-4
    assert not problem(eager, torch.ones(8) - 3.9e-4, reference)
    assert problem(eager, torch.ones(8) - 4.2e-4, reference)


def test_the_text_says_how_far_off_where_and_what_both_gave() -> None:
    eager, reference = drawn(3)
    regional = eager.clone()
    regional[1] = 5.5
    found = judge(eager, regional, reference)
    assert found.problem is not None
    assert f"worst at [1]: eager {eager[1].item():.9g}, regional 5.5" in found.problem
    assert str(found).startswith("output: error ")
    assert "allowed" in str(found)
    assert "against float64" in str(found)
    large, off = torch.tensor([1e6, 1.0]), torch.tensor([1e6 + 1, 1.001])
    assert problem(large, off).endswith("eager 1, regional 1.00100005, off by 0.001 there")


def test_a_better_result_than_eagers_passes() -> None:
    eager, reference = drawn(100)
    assert not problem(eager + 1e-3, eager, reference)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_specials_must_stand_in_the_same_places(special: float, dtype: torch.dtype) -> None:
    eager, reference = drawn(4, dtype=dtype)
    regional = eager.clone()
    regional[2] = special
    text = problem(eager, regional, reference)
    assert "in other places: eager has 0, regional 1" in text
    assert "2" in text.partition("first difference at")[2]
    assert problem(regional, eager, reference)
    assert not problem(regional, regional.clone(), reference)


def test_the_two_infinities_are_not_the_same() -> None:
    assert problem(torch.tensor([math.inf]), torch.tensor([-math.inf]))


def test_finite_elements_are_still_compared_beside_a_nan() -> None:
    eager = torch.tensor([math.nan, 1.0, 2.0])
    regional = torch.tensor([math.nan, 1.0, 2.1])
    assert "worst at [2]" in problem(eager, regional, eager.double())
    assert "worst at [2]" in problem(eager, regional)


def test_an_overflow_that_only_eagers_precision_has_is_no_fault() -> None:
    eager = torch.tensor([math.inf, 1.0], dtype=torch.float16)
    assert not problem(eager, eager.clone(), torch.tensor([1e6, 1.0], dtype=torch.float64))


def test_all_nan_and_nothing_else_passes() -> None:
    eager = torch.full((3,), math.nan)
    assert not problem(eager, eager.clone(), eager.double())


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_integers_and_booleans_are_exact(dtype: torch.dtype) -> None:
    eager = torch.tensor([0, 1, 1]).to(dtype)
    assert not problem(eager, eager.clone(), eager)
    text = problem(eager, torch.tensor([0, 1, 0]).to(dtype), eager)
    assert text.startswith("1 of 3 elements differ, first at [2]")


def test_large_integers_are_not_rounded_before_they_are_compared() -> None:
    assert problem(torch.tensor(2**53 + 1), torch.tensor(2**53))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64], ids=str)
def test_scalars_and_empty_tensors(dtype: torch.dtype) -> None:
    one, two = torch.tensor(1).to(dtype), torch.tensor(2).to(dtype)
    assert not problem(one, one.clone(), one)
    assert problem(one, two, one)
    assert problem(one, two)
    empty = torch.empty(0, 3, dtype=dtype)
    assert not problem(empty, empty.clone(), empty)
    assert not problem(empty, empty.clone())
    assert "shape differs" in problem(empty, torch.empty(3, 0, dtype=dtype))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda t: t.double(), "dtype differs: eager torch.float32, regional torch.float64"),
        (lambda t: t.flatten(), "shape differs: eager (2, 3), regional (6,)"),
        (lambda t: t.t().contiguous().t(), "strides differ: eager (3, 1), regional (1, 2)"),
        (lambda t: t.clone().requires_grad_(), "requires_grad differs"),
        (lambda t: t.to("meta"), "device differs: eager cpu, regional meta"),
        (lambda t: t.to_sparse(), "layout differs"),
    ],
)
def test_equal_numbers_in_another_form_are_a_fault(changed: Any, what: str) -> None:
    eager, reference = drawn(2, 3)
    assert what in problem(eager, changed(eager), reference)


def test_strides_of_single_elements_address_nothing() -> None:
    eager = torch.ones(2, 1, 3)
    assert not problem(eager, torch.ones(2, 3).as_strided((2, 1, 3), (3, 77, 1)))


def test_sparse_results_are_compared() -> None:
    eager = torch.eye(3).to_sparse()
    assert not problem(eager, eager.clone())
    assert problem(eager, (torch.eye(3) * 2).to_sparse())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8(dtype: torch.dtype) -> None:
    eager = torch.tensor([0.5, 1.0, -2.0]).to(dtype)
    assert not problem(eager, eager.clone())
    assert not problem(eager, eager.clone(), eager.double())
    assert problem(eager, torch.tensor([0.5, 1.0, -8.0]).to(dtype))

    def none(count: int) -> list[dict[str, Any]]:
        raise AssertionError("there is no arithmetic whose rounding could be moved")

    near = torch.tensor([0.5, 1.0, -2.0]).to(dtype)
    assert not problem(eager, near, eager.double(), samples=none)


def test_float8_is_judged_as_a_whole_where_runs_of_it_do_not_move() -> None:
    eager, regional = (torch.tensor([1, x]).to(torch.float8_e4m3fn) for x in (0, 2**-9))
    still = [{"output": eager}]
    assert not problem(eager, regional, eager.double(), samples=lambda count: still * count)


def test_conjugate_and_negative_views_are_looked_through() -> None:
    eager = torch.tensor([1 + 2j, 3 - 1j])
    assert not problem(eager.conj(), eager.conj().resolve_conj())
    negative = eager.conj().imag  # shares memory with eager and says "negated"
    assert negative.is_neg()
    assert not problem(negative, torch.view_as_real(eager.conj().resolve_conj())[:, 1])


def test_the_lowest_precision_in_use_sets_the_tolerance() -> None:
    eager = torch.ones(4)
    off = eager * (1 + 1e-2)
    assert problem(eager, off)
    assert problem(eager, off, precision=torch.float16)
    assert not problem(eager, off, precision=torch.bfloat16)
    assert problem(eager, eager * 1.1, precision=torch.bfloat16)


def test_a_tests_own_tolerance_takes_the_place_of_the_rule() -> None:
    eager, reference = drawn(4)
    off = eager + 0.01
    assert problem(eager, off, reference)
    assert not problem(eager, off, reference, tolerance=Tolerance(rtol=0.0, atol=0.011))
    assert problem(eager, off, reference, tolerance=Tolerance(rtol=0.0, atol=0.009))
    assert problem(eager, torch.nextafter(eager, eager + 1), tolerance=Tolerance(0.0, 0.0))
    assert not problem(eager, eager.clone(), tolerance=Tolerance(0.0, 0.0))


def test_results_that_no_region_has_a_part_in_have_eagers_bits() -> None:
    eager, reference = drawn(4)
    near = torch.nextafter(eager, eager + 1)
    assert not problem(eager, near, reference)
    found = judge(eager, near, reference, outside=["output"])
    assert found.against == "eager's bits"
    assert (found.problem or "").startswith("no region has a part in it, but 4 of 4 elements")
    assert not problem(eager, eager.clone(), reference, outside=["output"])
    assert not problem(
        torch.tensor([math.nan, 0.0]), torch.tensor([math.nan, -0.0]), outside=["output"]
    )
    assert not problem(eager, near, outside=["output"], tolerance=Tolerance(1e-5, 0.0))


def test_a_reference_that_computes_something_else_allows_nothing() -> None:
    """Four times the distance of such a reference would let every regional result pass."""
    eager, _ = drawn(6)
    assert not problem(eager, eager.clone(), eager.double() * 2)
    found = judge(eager, eager * 1.5, eager.double() * 2)
    assert found.problem is not None
    assert found.against == "eager"


def test_a_gradient_that_float64_computes_otherwise_allows_nothing() -> None:
    """As where a backward of the user's own asks for a dtype: outputs alone do not show it."""
    output, wide = drawn(6)
    gradient, name = torch.ones(3), "gradient of x"
    eager = {"output": output, name: gradient}
    reference = {"output": wide, name: gradient.double() * 2}

    def judged(regional: Tensor, *moved_by: float) -> tuple[str, bool]:
        runs = [{name: gradient * (1 + moved)} for moved in moved_by]
        given = {"output": output.clone(), name: regional}
        found = compare(eager, given, reference, samples=lambda count: runs * (count // 2))
        assert found[0].problem is None
        return found[1].against, found[1].problem is None

    assert judged(gradient.clone(), 1e-7, -1e-7) == ("eager", True)
    assert judged(gradient * 1.5, 1e-7, -1e-7) == ("eager", False)
    assert judged(gradient * 1.5, 0.5, -0.5) == ("float64", True)  # so far does rounding move it
    assert judged(gradient * 1.5) == ("float64", True)  # it cannot be told how far


def test_a_reference_of_another_shape_is_none() -> None:
    eager, _ = drawn(6)
    assert not problem(eager, eager.clone(), torch.ones(5, dtype=torch.float64))
    assert problem(eager, eager + 1, torch.ones(5, dtype=torch.float64))


def test_a_result_without_a_reference_is_held_to_eager() -> None:
    eager = {"output": torch.ones(2), "name": "x"}
    for reference in ({}, {"output": 1.0}):
        assert [d.against for d in compare(eager, dict(eager), reference)] == ["eager", "eager"]


def test_gradients_that_are_zero_but_for_rounding_pass() -> None:
    """The bias before a normalisation, or that of attention's keys: no digit is right."""
    output, wide = drawn(8)
    name = "gradient of bias"
    eager = {"output": output, name: torch.full((3,), 3e-3)}
    regional = {"output": output.clone(), name: torch.full((3,), -2e-3)}
    reference = {"output": wide, name: torch.full((3,), 1e-17, dtype=torch.float64)}
    assert [d.problem for d in compare(eager, regional, reference)] == [None, None]


def test_a_result_that_only_one_run_has_is_a_fault() -> None:
    one = {"output": torch.ones(1)}
    more = {**one, "gradient of w": torch.ones(1)}
    lost = compare(more, one, None)
    assert [(d.name, d.problem) for d in lost] == [
        ("output", None),
        ("gradient of w", "only the eager run has it"),
    ]
    assert compare(one, more, None)[1].problem == "only the regional run has it"


def test_results_come_in_eagers_order() -> None:
    eager = {name: torch.ones(1) for name in ("output", "gradient of b", "gradient of a")}
    regional = dict(reversed(eager.items()))
    assert [d.name for d in compare(eager, regional, None)] == list(eager)


@pytest.mark.parametrize("value", [3, True, "text", None, torch.float32, 2 + 0j])
def test_python_values_must_be_equal(value: Any) -> None:
    assert not problem(value, value)
    assert problem(value, "something else")


def test_python_floats_came_from_tensors_and_may_be_rounded() -> None:
    for value in (0.1, 0.1j):
        assert not problem(value, value * (1 + 1e-7), value)
        assert problem(value, value * 1.001, value)
        assert not problem(value, value * 1.001, value, precision=torch.bfloat16)
    assert not problem(math.nan, math.nan)
    assert problem(math.nan, 1.0)
    assert problem(1, 1.0)


@dataclass
class Unregistered:
    tensor: Tensor


def test_objects_that_hold_tensors_are_refused_with_what_to_do() -> None:
    text = problem(Unregistered(torch.ones(2)), Unregistered(torch.ones(2)))
    assert "Unregistered cannot be looked into" in text
    assert "register it" in text


def test_objects_whose_comparison_or_text_raises_are_results_all_the_same() -> None:
    class Raising:
        def _raises(self, *_: object) -> Any:
            raise TypeError("no")

        __eq__ = __repr__ = _raises
        __hash__ = None  # type: ignore[assignment]

    assert "Raising cannot be looked into" in problem(Raising(), Raising())
    assert "eager gives 1, regional a " in problem(1, Raising())


def test_what_is_used_of_the_allowed_is_the_largest_part_of_any_element() -> None:
    reference = torch.tensor([1e3, 1.0], dtype=torch.float64)
    large, small = 1e3 + 4 * 2**-14, 1.0 + 8 * 2**-23  # 0.5 of 16 roundings, of the second element

    def judged(*regional: float) -> Difference:
        eager, unmoved = reference.float(), [{"output": reference}]
        given = torch.tensor(regional)
        return judge(eager, given, reference, samples=lambda count: unmoved * count)

    found = judged(large, small)
    assert (found.problem, found.where, found.of_allowed) == (None, (0,), 0.5)
    assert judged(1e3, 1.0).of_allowed == 0.0
    wrong = judged(1e3, 1.0 + 32 * 2**-23)
    assert wrong.problem is not None
    assert wrong.of_allowed == 2.0
    assert "error/allowed at most 2)" in str(wrong)


def test_of_a_result_that_cancels_to_zero_the_part_of_the_allowed_is_one_that_can_be_judged() -> (
    None
):
    zero = torch.zeros(2, dtype=torch.float64)
    eager, regional = torch.tensor([1e-8, -1e-8]), torch.tensor([3e-8, 2e-8])
    found = judge(eager, regional, zero)
    assert found.problem is None
    assert found.relative_error == found.error > 0
    assert found.of_allowed == pytest.approx(3e-8 / 4e-8)


def test_where_nothing_is_allowed_the_part_is_infinite() -> None:
    ones = torch.ones(2)
    assert judge(ones.long(), ones.long()).of_allowed == 0.0
    for eager, regional in (
        (ones.long(), torch.zeros(2).long()),
        (ones, torch.ones(3)),
        (ones, ones * torch.nan),
    ):
        assert judge(eager, regional).of_allowed == math.inf
    (bits,) = compare({"y": ones}, {"y": ones + 2**-23}, None, outside={"y"})
    assert bits.of_allowed == math.inf


def test_the_figures_of_a_difference() -> None:
    reference = torch.tensor([2.0, 4.0], dtype=torch.float64)
    eager = torch.tensor([2.0, 4.0])
    regional = torch.tensor([2.0, 4.0 + 4 * 2**-22])
    found = judge(eager, regional, reference)
    assert found.problem is None
    assert (found.error, found.eager_error, found.scale) == (4 * 2**-22, 0.0, 4.0)
    assert found.relative_error == 2**-22
    assert found.ulps == 2.0
    assert judge(torch.zeros(2), torch.zeros(2)).relative_error == 0.0
    assert judge(eager, eager.clone()).cosine == 1.0
    turned = judge(torch.tensor([2.0, 0.0]), torch.tensor([2.0, 2.0]))
    assert turned.cosine == pytest.approx(0.5**0.5)
    assert turned.where == (1,)
    assert "relative 1, 8.4e+06 ulps, cosine 1 - 0.3" in str(turned)
    assert str(found).startswith("output: error 9.5e-07 at [1] (relative 2.4e-07, 2 ulps")
    assert str(judge(torch.ones(2), torch.ones(3))).startswith("output: shape differs: eager (2,)")
