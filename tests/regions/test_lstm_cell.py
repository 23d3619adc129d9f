"""An LSTM cell unrolled over four steps: its weights are used in each, its gates are one region."""

import torch
from torch import nn
from torch.fx.traceback import annotate

STEPS = 4


class UnrolledLSTM(nn.Module):
    def __init__(self, inputs: int = 5, hidden: int = 6) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, xs, state):
        h, c = state["h"], state["c"]
        outputs = []
        for x in xs.unbind(0):
            gates = self.from_input(x) + self.from_hidden(h)
            with annotate({"compile_with_inductor": {"inductor_region": "gates"}}):
                i, f, g, o = gates.chunk(4, dim=-1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), {"h": h, "c": c}


def test_unrolled(fxregion):
    model = UnrolledLSTM().to(fxregion.device)
    xs = fxregion.randn(STEPS, 3, 5)
    state = {
        "h": fxregion.zeros(3, 6, requires_grad=True),
        "c": fxregion.zeros(3, 6, requires_grad=True),
    }
    run = fxregion(model, xs, state=state)
    run.check()
    assert len(run.forward.regions) == STEPS
    assert set(run.gradients) == {
        "state['h']",
        "state['c']",
        "from_input.weight",
        "from_input.bias",
        "from_hidden.weight",
    }
