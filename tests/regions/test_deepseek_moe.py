"""A DeepSeek-style mixture of experts: shared expert, sigmoid router, bias for balance, routed
experts as one batched product in a region, and an auxiliary loss of the router.
"""

import torch
from torch import nn
from torch.fx.traceback import annotate

WIDTH, HIDDEN, EXPERTS, TOP = 8, 6, 4, 2


class RoutedExperts(nn.Module):
    """Every expert's weights in one tensor; tokens are weighted, not moved."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) / 3)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) / 3)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) / 3)

    def forward(self, x, weights):
        tokens = x.expand(EXPERTS, *x.shape)
        with annotate({"compile_with_inductor": {"inductor_region": "experts"}}):
            hidden = nn.functional.silu(tokens @ self.gate) * (tokens @ self.up)
            return (hidden @ self.down * weights.t().unsqueeze(-1)).sum(0)


class DeepSeekMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.register_buffer("balance_bias", torch.zeros(EXPERTS))
        self.routed = RoutedExperts()
        self.shared_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.shared_down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        affinity = self.router(x).sigmoid()
        _, chosen = (affinity + self.balance_bias).topk(TOP, dim=-1)
        best = affinity.gather(-1, chosen)
        weights = torch.zeros_like(affinity).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        gate, up = self.shared_up(x).chunk(2, dim=-1)
        shared = self.shared_down(nn.functional.silu(gate) * up)
        with annotate({"compile_with_inductor": {"inductor_region": "auxiliary loss"}}):
            load = (weights > 0).float().mean(0) * (EXPERTS / TOP)
            share = (affinity / affinity.sum(-1, keepdim=True)).mean(0)
            auxiliary = 0.01 * (load * share).sum()
        return x + shared + self.routed(x, weights), auxiliary


def test_training(fxregion):
    model = DeepSeekMoE().to(fxregion.device)
    run = fxregion(model, fxregion.randn(5, WIDTH, requires_grad=True))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'experts'", "'auxiliary loss'"}
    # The tokens feed residual, router, shared expert and, in `tokens`, two products; the
    # affinities feed the choice and the loss, there twice; the best ones a quotient and its sum.
    assert len(run.joint.gradient_accumulations) == 7
    summed = set(run.backward.gradient_accumulations)
    assert not any(summed & set(region.nodes) for region in run.backward.regions)


def test_inference(fxregion):
    model = DeepSeekMoE().to(fxregion.device).eval()
    with torch.no_grad():
        run = fxregion(model, fxregion.randn(5, WIDTH))
    run.check()
    assert {r.kind for r in run.inference.regions} == {"inference"}
    assert len(run.inference.regions) == 2
