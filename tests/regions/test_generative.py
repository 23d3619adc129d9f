"""Models that make samples: a variational autoencoder, a flow, a flow by integration, diffusion."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class VariationalAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 2 * 3)
        self.decoder = nn.Linear(3, 6)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        with annotate({"compile_with_inductor": {"inductor_region": "sample"}}):
            z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        with annotate({"compile_with_inductor": {"inductor_region": "divergence"}}):
            divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
        return nn.functional.mse_loss(self.decoder(z), x) + divergence


class Coupling(nn.Module):
    """Half of the values scale and shift the other half; the scales are the determinant."""

    def __init__(self):
        super().__init__()
        self.network = nn.Linear(2, 4)

    def forward(self, x):
        kept, changed = x.chunk(2, dim=-1)
        scale, shift = self.network(kept).chunk(2, dim=-1)
        with annotate({"compile_with_inductor": {"inductor_region": "couple"}}):
            scale = scale.tanh()
            return torch.cat((changed * scale.exp() + shift, kept), dim=-1), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList(Coupling() for _ in range(2))

    def forward(self, x):
        determinant = 0
        for step in self.steps:
            x, d = step(x)
            determinant = determinant + d
        return (determinant - x.square().sum(-1) / 2).mean()


def test_variational_autoencoder_draws_what_eager_draws(fxregion):
    run = fxregion(VariationalAutoencoder().to(fxregion.device), fxregion.randn(3, 6))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'sample'", "'divergence'"}
    # The mean twice, and the logarithm of the variance in the sample once, in the divergence twice.
    assert len(run.joint.gradient_accumulations) == 1 + 2


def test_flow_of_two_couplings_compiles_one(fxregion):
    run = fxregion(Flow().to(fxregion.device), fxregion.randn(3, 4, requires_grad=True))
    run.check()
    first, second = run.forward.regions
    assert second.shared_with == first.name


def test_integration_by_runge_kutta(fxregion):
    def field(x, w):
        with annotate({"compile_with_inductor": {"inductor_region": "field"}}):
            return (x @ w).tanh()

    def integrate(x, w):
        h = 0.1
        k1 = field(x, w)
        k2 = field(x + h / 2 * k1, w)
        k3 = field(x + h / 2 * k2, w)
        k4 = field(x + h * k3, w)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    run = fxregion(
        integrate,
        fxregion.randn(3, 4, requires_grad=True),
        fxregion.randn(4, 4, requires_grad=True),
    )
    run.check()
    assert [r.shared_with for r in run.forward.regions] == [None, *["inductor_region_0"] * 3]
    # w four times, x five times, three of the four slopes twice.
    assert len(run.joint.gradient_accumulations) == 3 + 4 + 3


def test_step_of_diffusion(fxregion):
    def loss(x, steps, kept, w):
        noise = torch.randn_like(x)
        level = kept[steps][:, None]
        with annotate({"compile_with_inductor": {"inductor_region": "noised"}}):
            noised = level.sqrt() * x + (1 - level).sqrt() * noise
        return nn.functional.mse_loss(noised @ w, noise)

    run = fxregion(
        loss,
        fxregion.randn(3, 4),
        fxregion.tensor([0, 3, 1]),
        fxregion.tensor([0.99, 0.9, 0.7, 0.4]),
        fxregion.randn(4, 4, requires_grad=True),
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'noised'"]
