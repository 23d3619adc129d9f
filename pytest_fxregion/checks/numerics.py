"""Compare what the compiled regions computed with what eager computed.

Comes in: named results of runs on the same inputs and seed (eager, regional and, where it can be
had, eager in float64).  Goes out: one :class:`Difference` a result, and whether it is allowed.

The rule for floating point.  A compiler may reorder and fuse, so its error is of eager's size but
not eager's error.  The error is that against the float64 run; without one (the function draws
random numbers, or works in a fixed low precision of its own), or where eager is so far from it that
it cannot be a reference, against eager.  Each element may be off by what ``ERROR_FACTOR`` times
eager's own error there and ``ROUNDINGS`` roundings of that element explain, or else by ``SPREADS``
times the spread of runs whose roundings were moved at random
(:mod:`pytest_fxregion.checks.roundings`).  So a small element that is wrong is found beside a large
one, and a sum that cancels may be off by the rounding of its terms.

Where the function does not stand being moved, the result as a whole is judged: its largest error
may be ``ERROR_FACTOR`` times eager's plus ``ROUNDINGS`` roundings of the largest value, or, against
eager, that of the lowest precision in use, from :data:`TOLERANCES`.

Results that no region has a part in must have eager's bits.  So must integers and booleans, always.
NaN and infinities must stand in the same places.  Python's floats are held to eager.  Shape, dtype,
device, strides and ``requires_grad`` must agree in every case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.form import different_form, different_objects

# Eager's largest error is one sample of the error that rounding makes; another order of the same
# operations draws another sample.
ERROR_FACTOR = 4.0
ROUNDINGS = 16.0

# Runs whose roundings were moved lie about as far from the true result as any other order of the
# operations would; five standard deviations, of what may be a third of the true one.
SPREADS = 16.0
# So many of them are made at first, and so many before an element is said to be wrong: of 32, a
# spread is known to an eighth.
FEW_SAMPLES, MANY_SAMPLES = 4, 32

# Where an output of eager's is off by more than this part of its largest value, and by more than
# rounding of numbers around one could explain, the float64 run did something else: the function
# asks for its input's dtype, say.  Four times such an error would allow anything.  A gradient that
# is off by that part must be one that moved roundings move as far.
BELIEVABLE = 0.1

# Relative and absolute tolerances of a single-precision-of-its-kind comparison without a reference;
# the values are the defaults that torch.testing.assert_close documents.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}

# Gives runs of eager with moved roundings, at least that many if it can.
Sampler = Callable[[int], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Tolerance:
    """A tolerance that a test sets itself: ``abs(a - b) <= atol + rtol * abs(b)``."""

    rtol: float
    atol: float


_WIDE = {float: torch.float64, complex: torch.complex128}


def compare(
    eager: Mapping[str, Any],
    regional: Mapping[str, Any],
    reference: Mapping[str, Any] | None,
    *,
    precision: torch.dtype | None = None,
    tolerance: Tolerance | None = None,
    outside: Collection[str] = (),
    samples: Sampler | None = None,
) -> tuple[Difference, ...]:
    """Compare every named result.

    ``reference`` holds the same results in float64, or is None.  ``precision`` is the lowest
    floating-point precision that eager computed in, where that is known.  ``outside`` are names of
    results that no region has a part in.  Without ``samples`` each result is judged as a
    whole.  ``tolerance`` takes the place of the rule above, ``outside`` included.
    """
    if reference is not None and not _is_believable(eager, reference):
        reference = None
    found = []
    for name in sorted(eager.keys() | regional.keys(), key=_reading_order(eager)):
        if name not in regional or name not in eager:
            side = "eager" if name in eager else "regional"
            found.append(Difference(name, "eager", problem=f"only the {side} run has it"))
            continue
        rule = _Rule(
            name,
            reference.get(name) if reference is not None else None,
            precision,
            tolerance,
            name in outside and tolerance is None,
            samples if tolerance is None else None,
        )
        found.append(_compare_one(rule, eager[name], regional[name]))
    return tuple(found)


@dataclass(frozen=True)
class _Rule:
    """What one result is held to."""

    name: str
    reference: Any
    precision: torch.dtype | None
    tolerance: Tolerance | None
    exact: bool
    samples: Sampler | None


def _reading_order(eager: Mapping[str, Any]) -> Any:
    position = {name: index for index, name in enumerate(eager)}
    return lambda name: (position.get(name, len(position)), name)


def _compare_one(rule: _Rule, eager: Any, regional: Any) -> Difference:
    if isinstance(eager, float | complex) and type(eager) is type(regional):
        # Taken from tensors; of which precision they do not say.
        wide = _WIDE[type(eager)]
        eager, regional = torch.tensor(eager, dtype=wide), torch.tensor(regional, dtype=wide)
        precision = rule.precision or torch.float32
        rule = replace(rule, reference=None, precision=precision, samples=None)
    if not isinstance(eager, torch.Tensor) or not isinstance(regional, torch.Tensor):
        return Difference(rule.name, "eager", problem=different_objects(eager, regional))
    form = different_form(eager, regional)
    if form is not None:
        return Difference(rule.name, "eager", problem=form)
    eager, regional = _plain(eager), _plain(regional)
    if not (eager.is_floating_point() or eager.is_complex()):
        return _compare_exactly(rule.name, eager, regional)
    if rule.exact:
        return _compare_bits(rule.name, eager, regional)
    if isinstance(rule.reference, torch.Tensor) and rule.tolerance is None:
        reference = _plain(rule.reference).to(_wide(eager.dtype))
        if reference.shape == eager.shape and _is_near(rule, eager, reference):
            return _compare_with_reference(rule, eager, regional, reference)
    return _compare_with_eager(rule, eager, regional)


def _compare_exactly(name: str, eager: torch.Tensor, regional: torch.Tensor) -> Difference:
    wrong = (eager != regional).nonzero()
    if not len(wrong):
        return Difference(name, "eager")
    where = tuple(wrong[0].tolist())
    return Difference(
        name,
        "eager",
        problem=f"{len(wrong)} of {eager.numel()} elements differ, first at {list(where)}: "
        f"eager {eager[where].item()}, regional {regional[where].item()}",
    )


def _compare_bits(name: str, eager: torch.Tensor, regional: torch.Tensor) -> Difference:
    """Ask for equal values; a zero's sign and which NaN it is are no value."""
    wide = eager.to(_wide(eager.dtype))
    judged = _judge(name, "eager's bits", eager, regional, wide, torch.zeros_like(wide.abs()), 0.0)
    if judged.problem is None:
        return judged
    return replace(judged, problem=f"no region has a part in it, but {judged.problem}")


def _is_believable(eager: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    """Whether float64 computed what eager did, judged by what is no gradient.

    Gradients are left out: some are zero but for rounding, so that no digit of eager's is right.
    """
    for name, value in eager.items():
        wide = reference.get(name)
        if name.startswith("gradient of ") or not isinstance(value, torch.Tensor):
            continue
        if not isinstance(wide, torch.Tensor) or not value.is_floating_point():
            continue
        value, epsilon = _plain(value), torch.finfo(value.dtype).eps
        value, wide = value.double(), _plain(wide).double()
        if value.shape != wide.shape:
            return False
        finite = torch.isfinite(value) & torch.isfinite(wide)
        largest = max(_largest(value.abs()[finite]), _largest(wide.abs()[finite]))
        error = _largest((value - wide).abs()[finite])
        if error > max(BELIEVABLE * largest, epsilon**0.5):
            return False
    return True


def _is_near(rule: _Rule, eager: torch.Tensor, reference: torch.Tensor) -> bool:
    """Whether rounding explains how far eager is from the reference, as far as can be told.

    It need not where a backward of the user's own asks for a dtype.
    """
    wide = eager.to(reference.dtype)
    finite = torch.isfinite(wide) & torch.isfinite(reference)
    error = _largest((wide - reference).abs()[finite])
    largest = max(_largest(wide.abs()[finite]), _largest(reference.abs()[finite]))
    if rule.samples is None or error <= BELIEVABLE * largest:
        return True
    runs = [run.get(rule.name) for run in rule.samples(FEW_SAMPLES)]
    spread = _spread(runs, wide, FEW_SAMPLES)
    return spread is None or error <= SPREADS * _largest(spread[finite])


def _compare_with_reference(
    rule: _Rule, eager: torch.Tensor, regional: torch.Tensor, reference: torch.Tensor
) -> Difference:
    wide = eager.to(reference.dtype)
    finite = torch.isfinite(reference) & torch.isfinite(wide)
    own_error = torch.where(finite, (wide - reference).abs(), 0.0)
    eager_error = _largest(own_error)
    scale = _largest(reference.abs()[finite])
    epsilon = torch.finfo(eager.dtype).eps
    whole = torch.full_like(own_error, ERROR_FACTOR * eager_error + ROUNDINGS * epsilon * scale)
    own = ERROR_FACTOR * own_error + ROUNDINGS * epsilon * reference.abs()
    allowed = _bound(rule, whole, own, regional, reference, finite)
    return _judge(rule.name, "float64", eager, regional, reference, allowed, eager_error)


def _compare_with_eager(rule: _Rule, eager: torch.Tensor, regional: torch.Tensor) -> Difference:
    reference = eager.to(_wide(eager.dtype))
    tolerance, epsilon = rule.tolerance, torch.finfo(eager.dtype).eps
    if tolerance is None:
        lowest = max(
            (_real(eager.dtype), rule.precision or _real(eager.dtype)),
            key=lambda dtype: torch.finfo(dtype).eps,
        )
        tolerance = Tolerance(*TOLERANCES.get(lowest, (torch.finfo(lowest).eps * 4, 1e-5)))
    whole = tolerance.atol + tolerance.rtol * reference.abs()
    own = ROUNDINGS * epsilon * reference.abs()
    allowed = _bound(rule, whole, own, regional, reference, torch.isfinite(reference))
    return _judge(rule.name, "eager", eager, regional, reference, allowed, 0.0)


def _bound(
    rule: _Rule,
    whole: torch.Tensor,
    own: torch.Tensor,
    regional: torch.Tensor,
    reference: torch.Tensor,
    finite: torch.Tensor,
) -> torch.Tensor:
    """Return the bound of each element; ``whole`` where it cannot be told for that one.

    Runs with moved roundings are made only if an element's ``own`` bound does not hold.  They tell
    nothing of one that a run makes NaN, as the root of what is zero but for rounding.
    """
    error = torch.where(finite, (regional.to(reference.dtype) - reference).abs(), 0.0)
    if rule.samples is None or regional.element_size() == 1:  # float8 has no arithmetic to move
        return whole
    allowed = own
    for count in (FEW_SAMPLES, MANY_SAMPLES):
        if not bool((error > allowed).any()):
            break
        spread = _spread([run.get(rule.name) for run in rule.samples(count)], reference, count)
        if spread is None:
            return whole
        known = torch.isfinite(spread)
        allowed = torch.maximum(own, torch.where(known, SPREADS * spread, whole))
    return allowed


def _spread(runs: Sequence[Any], reference: torch.Tensor, count: int) -> torch.Tensor | None:
    """Return how far runs lie from the reference, element by element; None if they cannot say."""
    values = [_plain(run) for run in runs if isinstance(run, torch.Tensor)]
    if len(values) < count or any(value.shape != reference.shape for value in values):
        return None
    squares = sum((value.to(reference.dtype) - reference).abs() ** 2 for value in values)
    assert isinstance(squares, torch.Tensor)
    return (squares / count).sqrt().nan_to_num(nan=torch.inf)


def _judge(
    name: str,
    against: str,
    eager: torch.Tensor,
    regional: torch.Tensor,
    reference: torch.Tensor,
    allowed: torch.Tensor,
    eager_error: float,
) -> Difference:
    epsilon = torch.finfo(eager.dtype).eps
    eager, regional = eager.to(reference.dtype), regional.to(reference.dtype)
    special = _different_specials(eager, regional)
    if special is not None:
        return Difference(name, against, problem=special)
    finite = torch.isfinite(eager) & torch.isfinite(reference)
    error = torch.where(finite, (regional - reference).abs(), 0.0)
    if error.numel() == 0:
        return Difference(name, against, shape=tuple(error.shape))
    excess = torch.where(finite, error - allowed, -1.0)
    worst = int((excess if bool((excess > 0).any()) else error).argmax())
    where = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), error.shape))
    scale = _largest(reference.abs()[finite])
    largest = _largest(error)
    difference = Difference(
        name=name,
        against=against,
        error=largest,
        eager_error=eager_error,
        allowed=float(allowed[where]),
        largest_part=_largest(torch.where(error > 0, error / allowed, 0.0)),
        scale=scale,
        ulps=largest / (epsilon * scale) if scale else 0.0,
        cosine=_cosine(regional[finite], reference[finite]),
        where=where,
        shape=tuple(error.shape),
    )
    count = int((excess > 0).sum())
    if not count:
        return difference
    problem = (
        f"{count} of {error.numel()} elements are off by more than is allowed, worst at "
        f"{list(where)}: eager {_number(eager[where])}, regional {_number(regional[where])}"
    )
    if largest > float(error[where]):
        problem += f", off by {float(error[where]):.2g} there"
    return replace(difference, problem=problem)


def _number(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.9g}" if isinstance(number, float) else f"{number:.6g}"


def _cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the cosine of the angle between two results; 1 where one of them is zero."""
    if torch.equal(one, other):
        return 1.0
    lengths = float(one.abs().square().sum().sqrt() * other.abs().square().sum().sqrt())
    return min(float((one * other.conj()).sum().real) / lengths, 1.0) if lengths else 1.0


def _different_specials(eager: torch.Tensor, regional: torch.Tensor) -> str | None:
    for what, test in (
        ("NaN", torch.isnan),
        ("+inf", torch.isposinf),
        ("-inf", torch.isneginf),
    ):
        if eager.is_complex():
            a, b = test(torch.view_as_real(eager)), test(torch.view_as_real(regional))
        else:
            a, b = test(eager), test(regional)
        if not torch.equal(a, b):
            where = (a != b).nonzero()[0].tolist()
            return (
                f"{what} in other places: eager has {int(a.sum())}, regional {int(b.sum())}, "
                f"first difference at {where}"
            )
    return None


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The values alone, dense and on the CPU, where they can be compared one by one."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
