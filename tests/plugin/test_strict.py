"""Annotated code that is in no compiled region: a warning, and with --fxregion-strict an error."""

import pytest

TEST = """
import torch
from torch.fx.traceback import annotate

def dead(x):
    with annotate({"compile_with_inductor": 0}):
        unused = x * 2
    return x.sin()

def broken(x):
    with annotate({"compile_with_inductor": 0}):
        y = x * 2
        torch._dynamo.graph_break()
        z = y + 3
    return z.sin()

def whole(x):
    with annotate({"compile_with_inductor": {"inductor_region": "a"}}):
        y = x * 2
        with annotate({"compile_with_inductor": None}):
            y = y.cos()
    return y.sin()

def branches(flag, x):
    with annotate({"compile_with_inductor": 0}):
        return torch.cond(flag, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

def test_dead(fxregion):
    fxregion(dead, fxregion.randn(3))

def test_broken(fxregion):
    fxregion(broken, fxregion.randn(3))

def test_whole(fxregion):
    fxregion(whole, fxregion.randn(3))

def test_branches(fxregion):  # eager's cond runs code that torch generated
    with torch.no_grad():
        fxregion(branches, fxregion.tensor(True), fxregion.randn(3))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nfilterwarnings = ignore::DeprecationWarning")
    pytester.makepyfile(test_lost=TEST)
    return pytester


def test_a_block_that_came_to_nothing_is_a_warning_with_its_line(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--fxregion", "--fxregion-device=cpu", "-p", "no:randomly")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*FxRegionWarning: *test_lost.py::test_dead: annotated, but in no compiled region: "
            "test_lost.py:6 (nothing uses its results*",
            "*FxRegionWarning: *test_lost.py::test_broken: annotated, but in no compiled region: "
            "test_lost.py:11, test_lost.py:13 (the function was compiled not at all*",
        ],
    )


def test_strict_makes_it_an_error(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--fxregion", "--fxregion-device=cpu", "--fxregion-strict")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*annotated, but in no compiled region: test_lost.py:6 *"])
