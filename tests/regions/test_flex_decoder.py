"""A decoder whose layers have another FlexAttention each: what long-context models mix.

A layer looks at all that came before, through a sliding window, within documents, or with a bias by
distance.  Each attention is a region.  Four layers run as they are; of two, everything is computed
again in the backward, of two others everything but the matrix products.
"""

import functools

import pytest
import torch
from torch import nn
from torch.fx.traceback import annotate
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

LENGTH, WIDTH = 128, 16


def causal(batch, head, query, key):
    return query >= key


def sliding_window(batch, head, query, key):
    return (query >= key) & (query - key < 24)


def within_documents(batch, head, query, key):
    return (query // 48 == key // 48) & (query >= key)


def biased_by_distance(score, batch, head, query, key):
    return score - 0.05 * (query - key)


# What an attention is called, which keys it looks at, and what it does to their scores.
ATTENTIONS = {
    "causal": (causal, None),
    "window": (sliding_window, None),
    "documents": (within_documents, None),
    "biased": (causal, biased_by_distance),
}


def save_matrix_products(context, operation, *args, **kwargs):
    if operation is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


SELECTIVE = functools.partial(create_selective_checkpoint_contexts, save_matrix_products)


def rotate(x, cos, sin):
    even, odd = x.chunk(2, dim=-1)
    return torch.cat((even * cos - odd * sin, even * sin + odd * cos), dim=-1)


class Layer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.norm = nn.Parameter(torch.ones(WIDTH))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.region = name
        _, self.score_mod = ATTENTIONS[name]

    def forward(self, x, cos, sin, mask):
        normal = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.norm
        q, k, v = self.qkv(normal)[:, None].chunk(3, dim=-1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        with annotate({"compile_with_inductor": {"inductor_region": self.region}}):
            mixed = flex_attention(q, k, v, block_mask=mask, score_mod=self.score_mod)
        return x + self.out(mixed.squeeze(1))


class Decoder(nn.Module):
    def __init__(self, names, call_layer):
        super().__init__()
        self.layers = nn.ModuleList(Layer(name) for name in names)
        frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.outer(torch.arange(LENGTH), frequencies)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.call_layer = call_layer

    def forward(self, x, masks):
        for layer, mask in zip(self.layers, masks, strict=True):
            x = self.call_layer(layer, x, self.cos, self.sin, mask)
        return x


def as_it_is(layer, *args):
    return layer(*args)


def recomputed(layer, *args):
    return checkpoint(layer, *args, use_reentrant=False)


def selectively_recomputed(layer, *args):
    return checkpoint(layer, *args, use_reentrant=False, context_fn=SELECTIVE)


@pytest.mark.parametrize(
    ("names", "call_layer"),
    [
        (tuple(ATTENTIONS), as_it_is),
        (("window", "biased"), recomputed),
        (("causal", "documents"), selectively_recomputed),
    ],
    ids=["none", "full", "selective"],
)
def test_checkpointing(fxregion, names, call_layer):
    if fxregion.device.type == "cpu":
        pytest.skip("torch has no backward of FlexAttention for the CPU")
    model = Decoder(names, call_layer).to(fxregion.device)
    masks = [
        create_block_mask(ATTENTIONS[name][0], None, None, LENGTH, LENGTH, str(fxregion.device))
        for name in names
    ]
    run = fxregion(model, fxregion.randn(1, LENGTH, WIDTH), masks)
    run.check()
    forward = [region.label for region in run.forward.regions]
    assert forward == [repr(name) for name in names]
    assert {region.label for region in run.backward.regions} == set(forward)
    again = {name for name in run.backward.recomputed if name.startswith("flex_attention")}
    assert bool(again) == (call_layer is not as_it_is)
