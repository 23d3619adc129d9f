"""Recurrences written as loops: a GRU, and the selective scan of a state-space layer."""

import torch
from torch import nn
from torch.fx.traceback import annotate

STEPS = 3


class GRU(nn.Module):
    def __init__(self, inputs=4, hidden=5):
        super().__init__()
        self.from_input = nn.Linear(inputs, 3 * hidden)
        self.from_hidden = nn.Linear(hidden, 3 * hidden)

    def forward(self, xs, h):
        for x in xs.unbind(0):
            given, kept = self.from_input(x), self.from_hidden(h)
            with annotate({"compile_with_inductor": {"inductor_region": "gates"}}):
                reset_x, update_x, new_x = given.chunk(3, dim=-1)
                reset_h, update_h, new_h = kept.chunk(3, dim=-1)
                update = (update_x + update_h).sigmoid()
                new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
                h = update * h + (1 - update) * new
        return h


class SelectiveScan(nn.Module):
    """Mamba's layer without its convolution: step size and projections depend on the input."""

    def __init__(self, width=4, state=3):
        super().__init__()
        self.step = nn.Linear(width, width)
        self.inward = nn.Linear(width, state, bias=False)
        self.outward = nn.Linear(width, state, bias=False)
        self.log_decay = nn.Parameter(torch.rand(width, state))
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x):
        step = nn.functional.softplus(self.step(x))
        inward, outward = self.inward(x), self.outward(x)
        with annotate({"compile_with_inductor": {"inductor_region": "scan"}}):
            decay = torch.exp(-step[..., None] * self.log_decay.exp())
            driven = (step * x)[..., None] * inward[:, :, None, :]
            state = torch.zeros_like(driven[:, 0])
            outputs = []
            for t in range(x.shape[1]):
                state = decay[:, t] * state + driven[:, t]
                outputs.append((state * outward[:, t, None, :]).sum(-1))
            scanned = torch.stack(outputs, dim=1)
        return scanned + x * self.skip


def test_gru(fxregion):
    model = GRU().to(fxregion.device)
    run = fxregion(model, fxregion.randn(STEPS, 2, 4), fxregion.zeros(2, 5, requires_grad=True))
    run.check()
    assert len(run.forward.regions) == STEPS
    assert len({r.shared_with or r.name for r in run.forward.regions}) == 1  # one body
    # Weights and biases are used in every step.
    assert len(run.joint.gradient_accumulations) >= 4 * (STEPS - 1)


def test_selective_scan(fxregion):
    model = SelectiveScan().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, STEPS, 4, requires_grad=True))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'scan'"]
    assert set(run.gradients) == {"x", *(name for name, _ in model.named_parameters())}
