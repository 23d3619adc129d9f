"""A T5-style encoder and decoder: tied embeddings, relative position bias, cross attention."""

import torch
from torch import nn
from torch.fx.traceback import annotate

WIDTH, VOCABULARY = 8, 11


class Attention(nn.Module):
    """One head, unscaled as in T5, with a learned bias by distance where positions are related."""

    def __init__(self, causal=False, distances=0):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.bias = nn.Parameter(torch.zeros(distances)) if distances else None
        self.causal = causal

    def forward(self, x, memory):
        q = self.query(x)
        k, v = self.key_value(memory).chunk(2, dim=-1)
        steps = torch.arange(x.shape[1], device=x.device)
        apart = (steps[:, None] - steps[None, :]) if self.bias is not None else None
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            scores = q @ k.transpose(1, 2)
            if apart is not None:
                scores = scores + self.bias[apart.abs()]
            if self.causal:
                scores = scores.masked_fill(apart < 0, float("-inf"))
            mixed = scores.softmax(-1) @ v
        return self.out(mixed)


class EncoderDecoder(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = Attention(distances=length)
        self.decoder = Attention(causal=True, distances=length)
        self.cross = Attention()
        self.norm = nn.Parameter(torch.ones(WIDTH))

    def forward(self, source, target):
        memory = self.embedding(source)
        memory = memory + self.encoder(memory, memory)
        x = self.embedding(target)
        x = x + self.decoder(x, x)
        x = x + self.cross(x, memory)
        x = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.norm
        return x * WIDTH**-0.5 @ self.embedding.weight.t()


def test_training(fxregion):
    model = EncoderDecoder(length=5).to(fxregion.device)
    source = fxregion.randint(0, VOCABULARY, (2, 5))
    target = fxregion.randint(0, VOCABULARY, (2, 5))
    run = fxregion(model, source, target)
    run.check()
    # The two self-attentions do not need each other and are one piece; the crossed one needs both.
    assert len(run.forward.regions) == 2
    # The embedding is looked up twice and multiplied with once: two sums of its own.
    uses = [a for a in run.joint.gradient_accumulations if shape_of(run, a) == (VOCABULARY, WIDTH)]
    assert len(uses) == 2


def shape_of(run, name):
    node = next(n for n in run.joint.graph.graph.nodes if n.name == name)
    return tuple(node.meta["val"].shape)


def test_inference(fxregion):
    model = EncoderDecoder(length=5).to(fxregion.device)
    with torch.no_grad():
        run = fxregion(
            model,
            fxregion.randint(0, VOCABULARY, (1, 5)),
            fxregion.randint(0, VOCABULARY, (1, 5)),
        )
    run.check()
    assert len(run.inference.regions) == 2
