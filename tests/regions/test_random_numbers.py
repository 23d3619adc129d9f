"""Random numbers in regions: a compiled region draws what eager draws, again where recomputed."""

import torch
from torch import nn
from torch.fx.traceback import annotate
from torch.utils.checkpoint import checkpoint

REGION = {"compile_with_inductor": {"inductor_region": "random"}}


def test_dropout_between_layers(fxregion):
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inward = nn.Linear(4, 8)
            self.outward = nn.Linear(8, 2)

        def forward(self, x):
            h = self.inward(x)
            with annotate(REGION):
                h = nn.functional.dropout(h.relu(), 0.5)
            return self.outward(h)

    run = fxregion(Dropped().to(fxregion.device), fxregion.randn(3, 4))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'random'"]


def test_dropout_beside_another_keeps_its_own_numbers(fxregion):
    def two(x):
        with annotate(REGION):
            first = nn.functional.dropout(x, 0.5) * 2
        outside = nn.functional.dropout(x, 0.5)
        with annotate(REGION):
            return nn.functional.dropout(first + outside, 0.5)

    run = fxregion(two, fxregion.randn(6, 4, requires_grad=True))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'random'"}


def test_recomputed_dropout_draws_the_same_numbers(fxregion):
    def layer(x, w):
        h = x @ w
        with annotate(REGION):
            h = h.tanh() * 2
        return nn.functional.dropout(h, 0.5).sin()

    def model(x, w):
        return checkpoint(layer, x, w, use_reentrant=False)

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    assert {r.label for r in run.forward.regions} == {"'random'"}
    assert run.backward.recomputed


def test_choice_by_gumbel_noise(fxregion):
    def choose(logits, table):
        with annotate(REGION):
            noise = -torch.rand_like(logits).clamp(min=1e-6).log().clamp(min=1e-6).log()
            weights = (logits + noise).softmax(-1)
        return weights @ table

    run = fxregion(
        choose, fxregion.randn(3, 4, requires_grad=True), fxregion.randn(4, 2, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'random'"]


def test_skipped_paths_of_a_residual_network(fxregion):
    def block(x, w):
        branch = (x @ w).relu()
        with annotate(REGION):
            kept = torch.bernoulli(torch.full((x.shape[0], 1), 0.5, device=x.device))
            return x + branch * kept / 0.5

    run = fxregion(
        block, fxregion.randn(4, 3, requires_grad=True), fxregion.randn(3, 3, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'random'"]
    assert len(run.joint.gradient_accumulations) == 1  # the residual
