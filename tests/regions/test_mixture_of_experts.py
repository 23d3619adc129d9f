"""A mixture of experts with shared experts and a router: the kind of model whose many gradient
accumulations were once mistaken for parts of the annotated regions (pytorch#167572).
"""

import torch
from torch import nn
from torch.fx.traceback import annotate


class Expert(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class MixtureOfExperts(nn.Module):
    """Every token goes to the shared expert and, weighted, to its best ``top`` of ``experts``."""

    def __init__(self, width: int = 8, hidden: int = 12, experts: int = 3, top: int = 2) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, hidden) for _ in range(experts))
        self.shared = Expert(width, hidden)
        self.top = top

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        best, chosen = scores.topk(self.top, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best)
        result = self.shared(x)
        for number, expert in enumerate(self.experts):
            with annotate({"compile_with_inductor": {"inductor_region": f"expert {number}"}}):
                result = result + expert(x) * weights[:, number : number + 1]
        balance = (scores.mean(0) * (weights > 0).float().mean(0)).sum()
        return x + result, balance


def test_experts_are_regions_of_their_own(fxregion):
    model = MixtureOfExperts().to(fxregion.device)
    run = fxregion(model, fxregion.randn(5, 8, requires_grad=True))
    run.check()
    assert {r.label for r in run.forward.regions} == {f"'expert {i}'" for i in range(3)}
    # The tokens feed the router, four experts twice each and the residual: nine additions.
    assert len(run.joint.gradient_accumulations) >= 9
    for region in run.backward.regions:
        assert not set(region.nodes) & set(run.backward.gradient_accumulations)
