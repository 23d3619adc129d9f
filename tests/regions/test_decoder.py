"""A decoder as GPT-J's: RMS norm, rotary embeddings, SDPA as a region, the MLP beside it.

The same weights with no checkpointing, with every layer recomputed, and with all but the matrix
products recomputed.
"""

import functools

import pytest
import torch
from torch import nn
from torch.fx.traceback import annotate
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

WIDTH, HEADS, LENGTH, VOCABULARY = 16, 2, 6, 13
LAYERS = 4


def save_matrix_products(context, operation, *args, **kwargs):
    if operation is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def rms_norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def rotary_table(length, width):
    frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), frequencies)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    even, odd = x.chunk(2, dim=-1)
    return torch.cat((even * cos - odd * sin, even * sin + odd * cos), dim=-1)


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.Parameter(torch.ones(WIDTH))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def attention(self, x, cos, sin):
        qkv = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            q, k = rotate(qkv[:2], cos, sin).unbind(0)
            mixed = nn.functional.scaled_dot_product_attention(q, k, qkv[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x, cos, sin):
        normal = rms_norm(x, self.norm)
        mlp = self.down(nn.functional.silu(self.up(normal)))
        return x + self.attention(normal, cos, sin) + mlp


class Decoder(nn.Module):
    def __init__(self, call_layer=lambda layer, *args: layer(*args)):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        cos, sin = rotary_table(LENGTH, WIDTH // HEADS)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.call_layer = call_layer

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = self.call_layer(layer, x, self.cos, self.sin)
        return self.head(x)


SELECTIVE = functools.partial(create_selective_checkpoint_contexts, save_matrix_products)


def recomputed(layer, *args):
    return checkpoint(layer, *args, use_reentrant=False)


def selectively_recomputed(layer, *args):
    return checkpoint(layer, *args, use_reentrant=False, context_fn=SELECTIVE)


def test_without_checkpointing(fxregion):
    model = Decoder().to(fxregion.device)
    run = fxregion(model, fxregion.randint(0, VOCABULARY, (2, LENGTH)))
    run.check()
    assert [region.kind for region in run.forward.regions] == ["forward"] * LAYERS
    assert {region.label for region in run.regions} == {"'attention'"}
    # In each layer: the residual, the norm, which uses its input twice, what it gives to attention
    # and MLP, both halves of what is rotated, and queries and keys together with values.
    assert len(run.joint.gradient_accumulations) == LAYERS * (1 + 1 + 1 + 2 + 1)


@pytest.mark.parametrize(
    "call_layer", [recomputed, selectively_recomputed], ids=["full", "selective"]
)
def test_checkpointed(fxregion, call_layer):
    model = Decoder(call_layer=call_layer).to(fxregion.device)
    run = fxregion(model, fxregion.randint(0, VOCABULARY, (2, LENGTH)))
    run.check()
    assert "PREFER_RECOMPUTE" in run.joint.text
    assert ("MUST_SAVE" in run.joint.text.split("def forward")[1]) == (
        call_layer is selectively_recomputed
    )
    assert run.backward.recomputed
    assert {region.label for region in run.regions} == {"'attention'"}


def test_inference(fxregion):
    model = Decoder().to(fxregion.device)
    with torch.no_grad():
        run = fxregion(model, fxregion.randint(0, VOCABULARY, (2, LENGTH)))
    run.check()
    first, *others = run.inference.regions
    assert {other.shared_with for other in others} == {first.name}  # equal layers: compiled once
