"""An embedding bag over bags of different lengths, and what is made of its sums in a region."""

import pytest
import torch
from torch import nn
from torch.fx.traceback import annotate

from pytest_fxregion.errors import DeviceError


class BagOfWords(nn.Module):
    def __init__(self, mode, sparse=False):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, mode=mode, sparse=sparse)
        self.head = nn.Linear(3, 2)

    def forward(self, tokens, offsets):
        h = self.bag(tokens, offsets)
        with annotate({"compile_with_inductor": {"inductor_region": "gate"}}):
            h = h.sigmoid() * h
        return self.head(h)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_training(fxregion, mode):
    model = BagOfWords(mode).to(fxregion.device)
    tokens, offsets = fxregion.randint(0, 7, (6,)), fxregion.tensor([0, 2, 3])
    run = fxregion(model, tokens, offsets)
    run.check()
    assert [r.label for r in run.forward.regions] == ["'gate'"]
    assert len(run.joint.gradient_accumulations) == 1  # the gated sum, used twice
    assert set(run.gradients) == {"bag.weight", "head.weight", "head.bias"}


def test_inference(fxregion):
    model = BagOfWords("sum").to(fxregion.device)
    with torch.no_grad():
        run = fxregion(model, fxregion.randint(0, 7, (6,)), fxregion.tensor([0, 2, 3]))
    run.check()
    assert len(run.inference.regions) == 1


def test_sparse_gradients_are_refused_by_name(fxregion):
    if fxregion.device.type == "cpu":
        pytest.skip("the CPU has sparse gradients in eager; the virtual CUDA device has none")
    # On the virtual device: it has no sparse tensors. On a GPU it is torch.compile that has none.
    model = BagOfWords("sum", sparse=True).to(fxregion.device)
    with pytest.raises(DeviceError, match="dense tensors only"):
        fxregion(model, fxregion.randint(0, 7, (6,)), fxregion.tensor([0, 2, 3]))
