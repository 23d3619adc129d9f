"""FlexAttention as a region, forward and backward: three masks and a score modification."""

import pytest
import torch
from torch.fx.traceback import annotate
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

LENGTH, WIDTH = 128, 16


def causal(batch, head, query, key):
    return query >= key


def sliding_window(batch, head, query, key):
    return (query >= key) & (query - key < 24)


def biased_by_distance(score, batch, head, query, key):
    return score - 0.05 * (query - key)


def attention(q, k, v, block_mask):
    with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
        return flex_attention(q, k, v, block_mask=block_mask)


def qkv(fxregion):
    if fxregion.device.type == "cpu":
        pytest.skip("torch has no backward of FlexAttention for the CPU")
    return tuple(fxregion.randn(1, 1, LENGTH, WIDTH, requires_grad=True) for _ in range(3))


def block_mask(mask, device):
    return create_block_mask(mask, None, None, LENGTH, LENGTH, device=str(device))


def check_one_region_each_way(run):
    run.check()
    assert [r.kind for r in run.forward.regions] == ["forward"]
    assert [r.kind for r in run.backward.regions] == ["backward"]
    assert set(run.gradients) == {"q", "k", "v"}


@pytest.mark.parametrize("mask", [causal, sliding_window])
def test_mask(fxregion, mask):
    run = fxregion(attention, *qkv(fxregion), block_mask(mask, fxregion.device))
    check_one_region_each_way(run)


def test_documents(fxregion):
    documents = fxregion.arange(LENGTH) // 48

    def same_document(batch, head, query, key):
        return (documents[query] == documents[key]) & (query >= key)

    run = fxregion(attention, *qkv(fxregion), block_mask(same_document, fxregion.device))
    check_one_region_each_way(run)


def test_score_modification(fxregion):
    def biased(q, k, v):
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            return flex_attention(q, k, v, score_mod=biased_by_distance)

    run = fxregion(biased, *qkv(fxregion))
    check_one_region_each_way(run)


def test_inference(fxregion):
    with torch.no_grad():
        run = fxregion(attention, *qkv(fxregion), block_mask(causal, fxregion.device))
    run.check()
    assert [r.kind for r in run.inference.regions] == ["inference"]
