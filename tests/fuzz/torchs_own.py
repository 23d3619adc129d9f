"""Whether torch alone goes wrong on a program, too: ``backend="aot_eager"`` in place of ours.

Comes in: the text of a program that fails with us.  Goes out: whether eager and torch's own
tracing, of which nothing is compiled, give different results, or cannot be compared either.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pytest_fxregion import FxRegion
from pytest_fxregion.call import Call
from pytest_fxregion.checks.as_traced import only_torchs_own_trace
from pytest_fxregion.checks.numerics import Tolerance, compare
from pytest_fxregion.device import Device
from pytest_fxregion.execution import execute
from pytest_fxregion.harness import as_traced, compiler_reset
from tests.fuzz.trial import TEST, load

# What is wrong is wrong by more than rounding of small programs.
TOLERANCE = Tolerance(1e-3, 1e-4)


class _Plain(FxRegion):
    """Stands for the fixture, and compiles with ``aot_eager``."""

    differs = False

    def __call__(  # type: ignore[override]
        self, function: Callable[..., Any], /, *args: Any, dynamic: bool | None = None
    ) -> _Plain:
        call = Call(function, args, {})
        with as_traced():
            eager = execute(call, seed=self.seed, backward=True)
        with only_torchs_own_trace(), compiler_reset():
            compiled = torch.compile(function, backend="aot_eager", dynamic=dynamic)
            try:
                plain = execute(
                    call,
                    run=compiled,
                    seed=self.seed,
                    backward=True,
                    grad_outputs=eager.cotangents or None,
                )
            except Exception:  # whatever torch raises where eager does not
                self.differs = True
                return self
        found = compare(eager.values, plain.values, None, tolerance=TOLERANCE)
        self.differs = any(difference.problem for difference in found)
        return self

    def check(self) -> None:
        """Do nothing: the program asks for it."""


def differs(source: str, folder: Path, device: Device) -> bool:
    """Run the program with torch alone; True if the results differ, or there are none."""
    harness = _Plain(
        test=TEST,
        root=folder,
        device=device,
        stages=(),
        provenance="",
        snapshot=lambda document, *, name: None,
    )
    with harness.seeded():
        load(source, folder).test_program(harness)
    return harness.differs
