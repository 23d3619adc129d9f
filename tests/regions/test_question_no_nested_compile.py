"""Question: is a region inside of a region compiled twice?

Never.  Where the call of a body (`cond`, `invoke_subgraph`) is annotated, the outer piece takes the
whole, and annotations inside of the body say nothing more.  Where the call is not annotated, the
regions inside of the body are compiled there, a shared body once.

Decided in `pytest_fxregion/regional/engine.py`.
"""

import torch
from torch.compiler import nested_compile_region
from torch.fx.traceback import annotate


def inner(x):
    with annotate({"compile_with_inductor": {"inductor_region": "inner"}}):
        return x.sin() * x


def test_an_annotated_call_is_one_piece(fxregion):
    def model(flag, x):
        with annotate({"compile_with_inductor": {"inductor_region": "outer"}}):
            return torch.cond(flag, inner, torch.cos, (x,)) + 1

    with torch.no_grad():
        run = fxregion(model, fxregion.tensor(True), fxregion.randn(5))
    run.check()
    assert [r.label for r in run.regions] == ["'outer'"]


def test_a_call_that_is_not_annotated_leaves_its_bodys_regions(fxregion):
    layer = nested_compile_region(inner)

    def model(x):
        return layer(layer(x).cos())

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5))
    run.check()
    assert [r.label for r in run.regions] == ["'inner'"]  # two calls, one body


def test_other_nodes_of_the_outer_region_join_the_piece_of_the_call(fxregion):
    layer = nested_compile_region(inner)

    def model(x):
        with annotate({"compile_with_inductor": {"inductor_region": "outer"}}):
            return layer(layer(x.exp())).cos()  # of one call dynamo makes no body

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5))
    run.check()
    assert [r.label for r in run.regions] == ["'outer'"]
