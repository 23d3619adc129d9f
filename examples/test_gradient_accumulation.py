"""Gradients that are summed: a value that is used n times needs n - 1 additions in the backward.

Autograd adds them, so no line of the program asks for them, and they belong to no region even where
everything around them does.
"""

from torch.fx.traceback import annotate


def shared(x, w):
    with annotate({"compile_with_inductor": 0}):
        h = x @ w  # w: used here and below
        waves = h.sin() + h.cos() + h.exp()  # h: used three times
        return waves @ w


def test_sums_of_gradients(fxregion):
    x = fxregion.randn(3, 4, requires_grad=True)
    w = fxregion.randn(4, 4, requires_grad=True)
    run = fxregion(shared, x, w)
    run.check()
    assert len(run.joint.gradient_accumulations) == 3  # two for h, one for w


def test_graph_and_region_as_values(fxregion, fxregion_snapshot):
    x = fxregion.randn(3, 4, requires_grad=True)
    w = fxregion.randn(4, 4, requires_grad=True)
    run = fxregion(shared, x, w)
    assert run.backward == fxregion_snapshot  # plain syrupy style, one stage of the run
    assert [region.kind for region in run.forward.regions] == ["forward"]
