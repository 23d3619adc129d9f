"""Question: may two equal operations be merged when their annotations differ?

No.  A common subexpression is computed once only where both places ask for the same compilation;
else code that the user put into a region would come from outside of it, or the other way round.
Under equal annotations, and inside a region that Inductor compiles, equal operations are merged.

Decided in `pytest_fxregion/passes/common_subexpressions.py`, on the joint graph and on that of an
inference. In a region, views and what is made of constants alone stay where they are: they cost
nothing there, and one that two pieces share would tie them to each other.
"""

from torch.fx.traceback import annotate


def sines(record):
    return [n.name for n in record.graph.graph.nodes if "aten.sin" in str(n.target)]


def test_equal_operations_in_and_out_of_a_region_are_both_kept(fxregion):
    def model(x):
        outside = x.sin()
        with annotate({"compile_with_inductor": 0}):
            inside = x.sin() * 2
        return outside + inside

    run = fxregion(model, fxregion.randn(5, requires_grad=True))
    run.check()
    assert len(sines(run.joint)) == 2
    assert len(sines(run.forward)) == 1
    (region,) = run.forward.regions
    assert any("aten.sin" in str(n.target) for n in region.body.graph.nodes)


def test_equal_operations_of_two_regions_are_both_kept(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": {"inductor_region": "a"}}):
            first = x.sin() * 2
        with annotate({"compile_with_inductor": {"inductor_region": "b"}}):
            second = x.sin() * 3
        return first, second

    run = fxregion(model, fxregion.randn(5, requires_grad=True))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'a'", "'b'"]
    assert len(sines(run.joint)) == 2


def test_equal_operations_of_one_region_are_one_kernel(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": 0}):
            return x.sin() * 2 + x.sin() * 2

    run = fxregion(model, fxregion.randn(5))
    run.check()
    assert run.inference.merged == 2  # the second sine and its product
    assert len(run.kernels) == 1
    assert run.kernels[0].source.count("sin(") == 1


def test_equal_operations_outside_of_regions_are_run_once(fxregion):
    def model(x):
        with annotate({"compile_with_inductor": 0}):
            y = x * 2
        return y.exp() * 3 + y.exp() * 4

    run = fxregion(model, fxregion.randn(5, requires_grad=True))
    run.check()
    assert sum("aten.exp" in str(n.target) for n in run.forward.graph.graph.nodes) == 1
    assert run.joint.merged == 3  # an exponential, and two views of it for the backward
