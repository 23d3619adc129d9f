"""A pre-norm transformer of two layers: attention annotated, the MLP selectively checkpointed."""

import functools

import torch
from torch import nn
from torch.fx.traceback import annotate
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def save_matmuls(context, operation, *args, **kwargs):
    if operation in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in self.qkv(x).chunk(3, dim=-1)
        )
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            mixed = scores.masked_fill(ahead, float("-inf")).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def mlp(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        contexts = functools.partial(create_selective_checkpoint_contexts, save_matmuls)
        return x + checkpoint(self.mlp, self.mlp_norm(x), use_reentrant=False, context_fn=contexts)


class Transformer(nn.Module):
    def __init__(self, layers: int = 2, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_training(fxregion):
    model = Transformer().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, 6, 16, requires_grad=True))
    run.check()
    assert "PREFER_RECOMPUTE" in run.joint.text
    assert "MUST_SAVE" in run.joint.text
    assert {region.label for region in run.regions} == {"'attention'"}
    assert len(run.forward.regions) == 2  # one a layer


def test_inference(fxregion):
    model = Transformer().to(fxregion.device)
    with torch.no_grad():
        run = fxregion(model, fxregion.randn(2, 6, 16))
    run.check()
    assert len(run.inference.regions) == 2


def test_any_batch_size(fxregion):
    model = Transformer(layers=1).to(fxregion.device)
    run = fxregion(model, fxregion.randn(3, 6, 16, requires_grad=True), dynamic=True)
    run.check()
