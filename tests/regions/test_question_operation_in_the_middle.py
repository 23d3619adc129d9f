"""Question: an operation in the middle of a region is not annotated; is the region one piece?

It is, unless the operation needs something of the region and the region needs the operation: then
one piece would have to run before and after it, and there are two.  Pieces are as few as can be
over all regions together.

Decided in `pytest_fxregion/regional/partition.py`.
"""

from torch.fx.traceback import annotate

HERE = {"compile_with_inductor": {"inductor_region": "r"}}


def run_of(fxregion, model):
    run = fxregion(model, fxregion.randn(5), fxregion.randn(5))
    run.check()
    return run.inference.regions


def test_beside_the_region_it_leaves_one_piece(fxregion):
    def model(x, y):
        with annotate(HERE):
            a = x.sin() + 1
        b = y.cos()  # needs nothing of the region
        with annotate(HERE):
            c = a.exp() * b
        return c

    assert len(run_of(fxregion, model)) == 1


def test_after_the_region_it_leaves_one_piece(fxregion):
    def model(x, y):
        with annotate(HERE):
            a = x.sin() + 1
        b = a.cos()  # the region does not need it
        with annotate(HERE):
            c = a.exp() * y
        return b, c

    assert len(run_of(fxregion, model)) == 1


def test_on_a_path_between_two_of_its_nodes_it_makes_two_pieces(fxregion):
    def model(x, y):
        with annotate(HERE):
            a = x.sin() + 1
        b = a.cos()
        with annotate(HERE):
            c = b.exp() * y
        return c

    regions = run_of(fxregion, model)
    assert [r.label for r in regions] == ["'r'", "'r'"]


def test_taken_out_by_an_inner_scope_it_makes_two_pieces_too(fxregion):
    def model(x, y):
        with annotate(HERE):
            a = x.sin() + 1
            with annotate({"compile_with_inductor": None}):
                b = a.cos()
            return b.exp() * y

    assert len(run_of(fxregion, model)) == 2
