"""Compare what the compiled regions computed with what eager computed.

Comes in: named results of three runs on the same inputs and seed (eager, regional and, where it can
be had, eager in float64).  Goes out: one :class:`Difference` a result, and whether it is allowed.

The rule.  Where there is a float64 reference, the regional result's error against it may be at
most ``ERROR_FACTOR`` times the largest error that eager itself makes, plus ``ROUNDINGS`` roundings
of the largest value of the result.  A compiler may reorder and fuse, so its error is of eager's
size but not eager's error.  Without a reference (the function draws random numbers, or works in a
fixed low precision of its own), or where eager is so far from it that it cannot be one, regional is
held to eager with the tolerance of the lowest precision in use, from :data:`TOLERANCES`; so are
Python's floats.  Integers and booleans must be equal, and NaN and infinities must stand in the same
places.  Shape, dtype, device and strides must agree in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

# Eager's largest error is one sample of the error that rounding makes; another order of the same
# operations draws another sample.
ERROR_FACTOR = 4.0
ROUNDINGS = 16.0

# Where an output of eager's is off by more than this part of its largest value, and by more than
# rounding of numbers around one could explain, the float64 run did something else: the function
# asks for its input's dtype, say.  Four times such an error would allow anything.
BELIEVABLE = 0.1

# Relative and absolute tolerances of a single-precision-of-its-kind comparison without a reference;
# the values are the defaults that torch.testing.assert_close documents.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}


_WIDE = {float: torch.float64, complex: torch.complex128}


@dataclass(frozen=True)
class Tolerance:
    """A tolerance that a test sets itself: ``abs(a - b) <= atol + rtol * abs(b)``."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Difference:
    """How one result of the regional run differs from eager's.

    ``error`` is the largest absolute error of regional, ``eager_error`` that of eager (both against
    float64 where ``against`` says so), ``allowed`` the bound at the worst element, ``where`` its
    index.  ``problem`` is None if the rule holds, else what is wrong in words.
    """

    name: str
    against: str
    error: float
    eager_error: float
    allowed: float
    scale: float
    ulps: float
    where: tuple[int, ...]
    problem: str | None

    @property
    def relative_error(self) -> float:
        """Largest error relative to the largest value of the result; 0 for an all-zero result."""
        return self.error / self.scale if self.scale else self.error

    def __str__(self) -> str:
        verdict = self.problem or "ok"
        return (
            f"{self.name}: error {self.error:.2g} (eager's {self.eager_error:.2g}, "
            f"allowed {self.allowed:.2g}) against {self.against}: {verdict}"
        )


def compare(
    eager: Mapping[str, Any],
    regional: Mapping[str, Any],
    reference: Mapping[str, Any] | None,
    *,
    precision: torch.dtype | None = None,
    tolerance: Tolerance | None = None,
) -> tuple[Difference, ...]:
    """Compare every named result.

    ``reference`` holds the same results in float64, or is None.  ``precision`` is the lowest
    floating-point precision that eager computed in, where that is known.  ``tolerance`` takes the
    place of the rule above.
    """
    if reference is not None and not _is_believable(eager, reference):
        reference = None
    found = []
    for name in sorted(eager.keys() | regional.keys(), key=_reading_order(eager)):
        if name not in regional or name not in eager:
            side = "eager" if name in eager else "regional"
            found.append(_problem(name, f"only the {side} run has it"))
            continue
        expected = reference.get(name) if reference is not None else None
        found.append(
            _compare_one(name, eager[name], regional[name], expected, precision, tolerance)
        )
    return tuple(found)


def _reading_order(eager: Mapping[str, Any]) -> Any:
    position = {name: index for index, name in enumerate(eager)}
    return lambda name: (position.get(name, len(position)), name)


def _compare_one(
    name: str,
    eager: Any,
    regional: Any,
    reference: Any,
    precision: torch.dtype | None,
    tolerance: Tolerance | None,
) -> Difference:
    if isinstance(eager, float | complex) and type(eager) is type(regional):
        # Taken from tensors; of which precision they do not say.
        wide = _WIDE[type(eager)]
        eager, regional = torch.tensor(eager, dtype=wide), torch.tensor(regional, dtype=wide)
        reference, precision = None, precision or torch.float32
    if not isinstance(eager, torch.Tensor) or not isinstance(regional, torch.Tensor):
        return _problem(name, _different_objects(eager, regional))
    form = _different_form(eager, regional)
    if form is not None:
        return _problem(name, form)
    eager, regional = _plain(eager), _plain(regional)
    if not (eager.is_floating_point() or eager.is_complex()):
        return _compare_exactly(name, eager, regional)
    if isinstance(reference, torch.Tensor) and tolerance is None:
        reference = _plain(reference).to(_wide(eager.dtype))
        if reference.shape == eager.shape:
            return _compare_with_reference(name, eager, regional, reference)
    return _compare_with_eager(name, eager, regional, precision, tolerance)


def _different_form(eager: torch.Tensor, regional: torch.Tensor) -> str | None:
    for what in ("shape", "dtype", "device", "layout", "requires_grad"):
        a, b = getattr(eager, what), getattr(regional, what)
        if a != b:
            return f"{what} differs: eager {_text(a)}, regional {_text(b)}"
    if (
        eager.layout is torch.strided
        and eager.numel() > 1
        and _strides(eager) != _strides(regional)
    ):
        return f"strides differ: eager {eager.stride()}, regional {regional.stride()}"
    return None


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others address nothing."""
    return tuple(
        stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    )


def _compare_exactly(name: str, eager: torch.Tensor, regional: torch.Tensor) -> Difference:
    wrong = (eager != regional).nonzero()
    if not len(wrong):
        return _problem(name, None)
    where = tuple(wrong[0].tolist())
    return _problem(
        name,
        f"{len(wrong)} of {eager.numel()} elements differ, first at {list(where)}: "
        f"eager {eager[where].item()}, regional {regional[where].item()}",
    )


def _different_objects(eager: Any, regional: Any) -> str | None:
    if type(eager) is not type(regional):
        return f"eager gives {eager!r}, regional {regional!r}"
    try:
        same = bool(eager == regional)
    except (RuntimeError, ValueError):  # it holds tensors or arrays
        return (
            f"a {type(eager).__qualname__} cannot be looked into: return tensors in lists, tuples "
            "or dictionaries, or register it with torch.utils._pytree"
        )
    return None if same else f"eager gives {eager!r}, regional {regional!r}"


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


def _compare_with_reference(
    name: str, eager: torch.Tensor, regional: torch.Tensor, reference: torch.Tensor
) -> Difference:
    epsilon = torch.finfo(eager.dtype).eps
    wide = eager.to(reference.dtype)
    finite = torch.isfinite(reference) & torch.isfinite(wide)
    scale = _largest(reference.abs()[finite])
    eager_error = _largest((wide - reference).abs()[finite])
    allowed = torch.full_like(
        reference.abs(), ERROR_FACTOR * eager_error + ROUNDINGS * epsilon * scale
    )
    return _judge(name, "float64", eager, regional, reference, allowed, eager_error)


def _compare_with_eager(
    name: str,
    eager: torch.Tensor,
    regional: torch.Tensor,
    precision: torch.dtype | None,
    tolerance: Tolerance | None,
) -> Difference:
    reference = eager.to(_wide(eager.dtype))
    if tolerance is None:
        lowest = max(
            (_real(eager.dtype), precision or _real(eager.dtype)),
            key=lambda dtype: torch.finfo(dtype).eps,
        )
        tolerance = Tolerance(*TOLERANCES.get(lowest, (torch.finfo(lowest).eps * 4, 1e-5)))
    allowed = tolerance.atol + tolerance.rtol * reference.abs()
    return _judge(name, "eager", eager, regional, reference, allowed, 0.0)


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
        return _problem(name, special, against)
    finite = torch.isfinite(eager) & torch.isfinite(reference)
    error = torch.where(finite, (regional - reference).abs(), 0.0)
    if error.numel() == 0:
        return _problem(name, None, against)
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
        scale=scale,
        ulps=largest / (epsilon * scale) if scale else 0.0,
        where=where,
        problem=None,
    )
    if not bool((excess > 0).any()):
        return difference
    count = int((excess > 0).sum())
    problem = (
        f"{count} of {error.numel()} elements are off by more than is allowed, worst at "
        f"{list(where)}: eager {eager[where].item():.9g}, regional {regional[where].item():.9g}"
        if not eager.is_complex()
        else f"{count} of {error.numel()} elements are off, worst at {list(where)}"
    )
    return Difference(**{**difference.__dict__, "problem": problem})


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


def _text(value: object) -> object:
    return tuple(value) if isinstance(value, torch.Size) else value


def _problem(name: str, problem: str | None, against: str = "eager") -> Difference:
    return Difference(name, against, 0.0, 0.0, 0.0, 0.0, 0.0, (), problem)
