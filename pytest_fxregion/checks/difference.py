"""How one result of the regional run differs from eager's: figures, and what is wrong in words."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """How one result of the regional run differs from eager's.

    ``error`` is the largest absolute error of regional, ``eager_error`` that of eager (both against
    float64 where ``against`` says so), ``scale`` the largest value.  ``allowed`` is the bound at
    ``where``, the element that exceeds it most, or else the one with the largest error.
    ``largest_part`` is the largest that an element's error is of that element's own bound.
    ``ulps`` is the error in units of the last place of the largest value, ``cosine`` that of the
    angle between the two results taken as vectors.  ``problem`` is None if the rule holds, else
    what is wrong in words.
    """

    name: str
    against: str
    error: float = 0.0
    eager_error: float = 0.0
    allowed: float = 0.0
    largest_part: float = 0.0
    scale: float = 0.0
    ulps: float = 0.0
    cosine: float = 1.0
    where: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    problem: str | None = None

    @property
    def relative_error(self) -> float:
        """Largest error relative to the largest value of the result; 0 for an all-zero result."""
        return self.error / self.scale if self.scale else self.error

    @property
    def of_allowed(self) -> float:
        """How much of what is allowed was used: 0 without an error, more than 1 where it is wrong.

        Infinite where nothing is allowed: integers that differ, shapes, a NaN of one side.
        """
        return math.inf if self.problem is not None and not self.error else self.largest_part

    def __str__(self) -> str:
        if self.problem is not None and not self.error:
            return f"{self.name}: {self.problem}"
        verdict = self.problem or "ok"
        place = (
            f" at {list(self.where)}" if self.where and self.error and self.problem is None else ""
        )
        away = f", cosine 1 - {1 - self.cosine:.1g}" if self.cosine != 1 else ""
        return (
            f"{self.name}: error {self.error:.2g}{place} (relative {self.relative_error:.2g}, "
            f"{self.ulps:.2g} ulps{away}; eager's {self.eager_error:.2g}, "
            f"allowed {self.allowed:.2g}, error/allowed at most {self.of_allowed:.2g}) "
            f"against {self.against}: {verdict}"
        )
