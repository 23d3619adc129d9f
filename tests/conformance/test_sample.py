"""A sample of the comparison, quick enough for every run, and the form of the page it writes.

All of it is ``python -m tests.conformance``.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.traceback import annotate

from pytest_fxregion import FxRegion
from tests.regions.test_attention_variants import attention_with_linear_biases
from tests.regions.test_graphs_and_tables import EDGES, GraphConvolution
from tests.regions.test_training_step import adamw_

from .reasons import reason
from .suite import Comparison, both_ways

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "differences.md"


def comparison(fxregion: FxRegion, function: Callable[..., Any], *args: Any) -> Comparison:
    found = Comparison(inductor=False)
    both_ways(found, fxregion, function, *args)
    return found


@pytest.mark.skipif(
    torch.__version__ < (2, 13),  # type: ignore[operator]
    reason="torch 2.11 knows no ids of regions, and cuts without them",
)
def test_both_passes_cut_and_compute_the_same(fxregion: FxRegion) -> None:
    model = GraphConvolution().to(fxregion.device)  # type: ignore[no-untyped-call]
    x = fxregion.randn(4, 4, requires_grad=True)
    found = comparison(fxregion, model, x, fxregion.tensor(EDGES))
    assert (found.differences, found.runs, found.equal_runs) == ([], 1, 1)


def test_regions_in_attention_are_the_same(fxregion: FxRegion) -> None:
    q, k, v = (fxregion.randn(2, 3, 2, requires_grad=True) for _ in range(3))
    slopes = fxregion.tensor([0.5, 0.25], requires_grad=True)
    found = comparison(fxregion, attention_with_linear_biases, q, k, v, slopes)
    assert (found.differences, found.runs, found.equal_runs) == ([], 1, 1)


def test_writes_in_place_are_the_same(fxregion: FxRegion) -> None:
    moments = [fxregion.zeros(3) for _ in range(2)]
    arguments = (fxregion.randn(3), fxregion.randn(3), *moments, fxregion.tensor(0.0))
    assert not comparison(fxregion, adamw_, *arguments).differences


def test_a_difference_is_found_with_its_kind(fxregion: FxRegion) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = x.sin() * 2
            with annotate({"compile_with_inductor": None}):
                h = h.cos()
            return h + 1

    found = comparison(fxregion, model, fxregion.randn(4))
    assert "opted out" in {difference.kind for difference in found.differences}
    assert found.equal_runs == 0


def test_the_page_holds_reasons_as_they_are_now_for_tests_that_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert sections
    for section in sections:
        kind, why, _, *rows = (part for part in section.split("\n\n") if part.strip())
        kind = kind[:1].lower() + kind[1:]
        assert why == reason(kind), kind
        del rows
    for path, name in re.findall(r"^\| (\S+\.py)::(\w+)", text, flags=re.MULTILINE):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
