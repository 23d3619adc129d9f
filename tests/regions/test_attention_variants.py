"""Attentions that models have in place of the plain one: fewer keys, latents, kernels, caches."""

import torch
from torch import nn
from torch.fx.traceback import annotate

WIDTH, HEADS, LENGTH = 8, 4, 5
HEAD = WIDTH // HEADS


class GroupedQueryAttention(nn.Module):
    """Four heads of queries share two of keys and values (Ainslie et al., 2023)."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * 2 * HEAD, bias=False)

    def forward(self, x):
        q = self.query(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        k, v = self.key_value(x).unflatten(-1, (2, 2, HEAD)).permute(2, 0, 3, 1, 4).unbind(0)
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            k, v = (t.repeat_interleave(HEADS // 2, dim=1) for t in (k, v))
            ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(-2, -1) * HEAD**-0.5).masked_fill(ahead, float("-inf"))
            return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class LatentAttention(nn.Module):
    """Keys and values come from a narrow latent, positions from a part of their own (DeepSeek)."""

    def __init__(self, latent=3):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, latent, bias=False)
        self.up = nn.Linear(latent, 2 * WIDTH, bias=False)
        self.norm = nn.Parameter(torch.ones(latent))

    def forward(self, x):
        q = self.query(x)
        latent = self.down(x)
        with annotate({"compile_with_inductor": {"inductor_region": "norm"}}):
            latent = latent * (latent.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.norm
        k, v = self.up(latent).chunk(2, dim=-1)
        with annotate({"compile_with_inductor": {"inductor_region": "weights"}}):
            weights = (q @ k.transpose(1, 2) * WIDTH**-0.5).softmax(-1)
        return weights @ v


class LinearAttention(nn.Module):
    """Softmax is replaced by a feature map, so that the past fits into one matrix."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        with annotate({"compile_with_inductor": {"inductor_region": "features"}}):
            q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        state = torch.einsum("bld,ble->blde", k, v).cumsum(1)
        with annotate({"compile_with_inductor": {"inductor_region": "read"}}):
            seen = (q * k.cumsum(1)).sum(-1, keepdim=True)
            return (q.unsqueeze(-1) * state).sum(-2) / seen


def attention_with_linear_biases(q, k, v, slopes):
    """Positions as a bias that falls with the distance, a slope for each head (ALiBi)."""
    steps = torch.arange(q.shape[-2], device=q.device)
    with annotate({"compile_with_inductor": {"inductor_region": "scores"}}):
        distance = (steps[None, :] - steps[:, None]).clamp(max=0)
        scores = q @ k.transpose(-2, -1) + slopes[:, None, None] * distance
        scores = scores.masked_fill(steps[None, :] > steps[:, None], float("-inf"))
    return scores.softmax(-1) @ v


def decode_step(x, keys, values, position, query, key, value):
    """One token with a cache of keys and values, which is written in place."""
    q = x @ query
    with annotate({"compile_with_inductor": {"inductor_region": "cache"}}):
        keys.index_copy_(1, position, (x @ key)[:, None])
        values.index_copy_(1, position, (x @ value)[:, None])
        steps = torch.arange(keys.shape[1], device=x.device)
        scores = (keys @ q[..., None]).squeeze(-1).masked_fill(steps > position, float("-inf"))
        return (scores.softmax(-1)[:, None] @ values).squeeze(1)


def labels(regions):
    return [region.label for region in regions]


def test_grouped_queries(fxregion):
    model = GroupedQueryAttention().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, LENGTH, WIDTH, requires_grad=True))
    run.check()
    assert labels(run.forward.regions) == ["'attention'"]
    assert len(run.joint.gradient_accumulations) == 1  # x makes queries, and keys with values


def test_latent_attention(fxregion):
    model = LatentAttention().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, LENGTH, WIDTH, requires_grad=True))
    run.check()
    assert labels(run.forward.regions) == ["'norm'", "'weights'"]
    # x; the latent and its norm
    assert len(run.joint.gradient_accumulations) == 2


def test_linear_attention(fxregion):
    model = LinearAttention().to(fxregion.device)
    run = fxregion(model, fxregion.randn(2, LENGTH, WIDTH))
    run.check()
    assert labels(run.forward.regions) == ["'features'", "'read'"]
    assert len(run.joint.gradient_accumulations) == 2  # both features: in the state and the sum


def test_linear_biases(fxregion):
    q, k, v = (fxregion.randn(2, LENGTH, HEAD, requires_grad=True) for _ in range(3))
    slopes = fxregion.tensor([0.5, 0.25], requires_grad=True)
    run = fxregion(attention_with_linear_biases, q, k, v, slopes)
    run.check()
    assert labels(run.forward.regions) == ["'scores'"]
    assert set(run.gradients) == {"q", "k", "v", "slopes"}


def test_decoding_with_a_cache_writes_it(fxregion):
    weights = [fxregion.randn(WIDTH, WIDTH) for _ in range(3)]
    caches = [fxregion.zeros(2, LENGTH, WIDTH) for _ in range(2)]
    run = fxregion(decode_step, fxregion.randn(2, WIDTH), *caches, fxregion.tensor([2]), *weights)
    run.check()
    assert {"keys after the call", "values after the call"} <= {d.name for d in run.differences}
    assert labels(run.inference.regions) == ["'cache'"]
