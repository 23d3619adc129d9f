"""Tensor subclasses: what is compiled are the tensors that they are made of."""

import pytest
import torch
from torch.fx.traceback import annotate
from torch.testing._internal.two_tensor import TwoTensor


def model(x, w):
    with annotate({"compile_with_inductor": {"inductor_region": "product"}}):
        return (x @ w).sin() * 2


@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
def test_pair_of_tensors(fxregion, gradients):
    x = TwoTensor(fxregion.randn(3, 4), fxregion.randn(3, 4)).requires_grad_(gradients)
    run = fxregion(model, x, fxregion.randn(4, 2, requires_grad=gradients))
    run.check()
    assert isinstance(run.outputs, TwoTensor)
    record = run.forward if gradients else run.inference
    assert [r.label for r in record.regions] == ["'product'"]
    (region,) = record.regions
    products = [n for n in region.body.graph.nodes if n.target is torch.ops.aten.mm.default]
    assert len(products) == 2  # one for each of the pair
