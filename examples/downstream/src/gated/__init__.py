"""A gated feed-forward layer whose middle Inductor compiles."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class GatedLayer(nn.Module):
    """``down(silu(gate(x)) * up(x))``; the activation and the product are a region."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (…, width) to (…, width)."""
        gate, up = self.gate(x), self.up(x)
        with annotate({"compile_with_inductor": {"inductor_region": "gate"}}):
            hidden = nn.functional.silu(gate) * up
        down: torch.Tensor = self.down(hidden)
        return down
