"""Question: what is a region when checkpointing computes only a part of it again?

The recomputed nodes keep the region's annotation and are compiled in the backward as a piece of
their own, of kind `recompute`.  It may be smaller than the forward's: what selective checkpointing
has saved is not in it.  Its numbers are the forward's, and the text shows which nodes it has.

Decided in `pytest_fxregion/regional/` (pieces are cut from the backward graph as they stand there).
"""

import functools

import torch
from torch.fx.traceback import annotate
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def save_products(context, operation, *args, **kwargs):
    if operation is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


SELECTIVE = functools.partial(create_selective_checkpoint_contexts, save_products)


def layer(x, w):
    with annotate({"compile_with_inductor": {"inductor_region": "layer"}}):
        return ((x.sin() @ w).exp() * x).cos()


def operations(region):
    return {str(n.target) for n in region.body.graph.nodes if n.op == "call_function"}


def pieces(run, kind):
    return [region for region in run.regions if region.kind == kind]


def test_full_checkpoint_recomputes_the_region(fxregion):
    def model(x, w):
        return checkpoint(layer, x, w, use_reentrant=False)

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    (forward,) = pieces(run, "forward")
    again = set().union(*(operations(r) for r in run.backward.regions))
    assert {"aten.sin.default", "aten.mm.default", "aten.exp.default"} <= again
    assert "aten.cos.default" in operations(forward)
    assert {region.label for region in run.regions} == {"'layer'"}


def test_selective_checkpoint_leaves_out_what_was_saved(fxregion):
    def model(x, w):
        return checkpoint(layer, x, w, use_reentrant=False, context_fn=SELECTIVE)

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    assert any(saved.name.startswith("mm") for saved in run.forward.saved_for_backward)
    assert not any(name.startswith("mm") for name in run.backward.recomputed)
    assert any(name.startswith("exp") for name in run.backward.recomputed)
    assert {region.label for region in run.regions} == {"'layer'"}
