"""The smallest example: a function whose middle is compiled by Inductor, the rest runs eagerly."""

import torch
from torch.fx.traceback import annotate


def block(x, w):
    h = torch.sin(x)
    with annotate({"compile_with_inductor": 0}):
        h = h * w + 1
    return torch.sin(h)


def test_block(fxregion):
    x = fxregion.randn(10, requires_grad=True)  # on the device under test
    w = fxregion.randn(10, requires_grad=True)
    run = fxregion(block, x, w)  # eager and regional, forward and backward
    run.check()  # numerics, gradient accumulation, snapshot
