"""Question: what is the region of code under two annotations, and of code after them?

The mappings are merged; of one key the inner value counts.  Leaving a scope restores exactly what
was before it.  A region has no place in the program: code under the same id before and after the
inner scope is one region, though the inner one stands between.

Decided by `torch.fx.traceback.annotate`, and in `pytest_fxregion/regional/annotation.py`.
"""

import torch
from torch.fx.traceback import annotate


def region(name):
    return {"compile_with_inductor": {"inductor_region": name}}


def nodes_by_label(regions):
    found = {}
    for piece in regions:
        found.setdefault(piece.label, []).extend(
            str(n.target) for n in piece.body.graph.nodes if n.op == "call_function"
        )
    return found


def test_the_inner_id_counts_and_the_outer_one_is_restored(fxregion):
    def model(x, y):
        with annotate(region("outer")):
            a = x.sin()
            with annotate(region("inner")):
                b = y.cos()
            return a.exp() * 2, b

    run = fxregion(model, fxregion.randn(5), fxregion.randn(5))
    run.check()
    assert nodes_by_label(run.regions) == {
        "'outer'": ["aten.sin.default", "aten.exp.default", "aten.mul.Tensor"],
        "'inner'": ["aten.cos.default"],
    }


def test_other_keys_of_the_outer_scope_stay(fxregion):
    def model(x):
        with annotate({"pp_stage": 1, **region("outer")}), annotate(region("inner")):
            return x.sin() * 2

    run = fxregion(model, fxregion.randn(5, requires_grad=True))
    run.check()
    assert {r.label for r in run.regions} == {"'inner'"}
    assert run.joint.text.count("# pp_stage: 1") == run.joint.text.count("# region: 'inner'")


def test_regions_that_need_each_other_are_cut(fxregion):
    def model(x):
        with annotate(region("a")):
            one = x.sin()
        with annotate(region("b")):
            two = one.cos()
        with annotate(region("a")):
            return two.exp()

    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5))
    run.check()
    assert [r.label for r in run.regions] == ["'a'", "'b'", "'a'"]
