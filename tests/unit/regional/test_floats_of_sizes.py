"""Regions that compute floats from dynamic sizes: no input of a piece is the size by itself."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx.traceback import annotate

from tests.unit.checks.test_accumulation_oracle import leaf, run_of


def test_a_batch_norm_in_a_region_has_a_dynamic_batch() -> None:
    # AOTAutograd's pass for Python floats raised KeyError: s77.
    norm = torch.nn.BatchNorm1d(6)

    def function(x: Tensor) -> Tensor:
        with annotate({"compile_with_inductor": 0}):
            hidden: Tensor = norm(x)
            return hidden * (x.shape[0] / 3)

    run = run_of(function, leaf(4, 6), dynamic=True)
    run.check_numerics()
    assert len(run.regions) == 2
