"""Regions under autocast, and with sizes that are not known when the graph is made."""

import pytest
import torch
from torch import nn
from torch.fx.traceback import annotate


class Mlp(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.up(x)
        with annotate({"compile_with_inductor": {"inductor_region": "activation"}}):
            h = nn.functional.gelu(h) * h
        return x + self.down(h)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_autocast(fxregion, dtype):
    model = Mlp().to(fxregion.device)

    def step(x):
        with torch.autocast(x.device.type, dtype=dtype):
            return model(x)

    run = fxregion(step, fxregion.randn(3, 8, requires_grad=True))
    run.check()
    short = {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    assert f'"{short}[3, 16]' in run.forward.text
    assert run.gradients["model.up.weight"].dtype == torch.float32


def test_dynamic_batch(fxregion):
    run = fxregion(Mlp().to(fxregion.device), fxregion.randn(5, 8), dynamic=True)
    run.check()
    assert '"f32[s' in run.forward.text
    assert len(run.forward.regions) == 1


def test_dynamic_batch_and_length(fxregion):
    def causal_mean(x, w):
        batch, length, _ = x.shape
        with annotate({"compile_with_inductor": {"inductor_region": "mean"}}):
            seen = torch.arange(1, length + 1, device=x.device)
            mean = x.cumsum(1) / seen[:, None]
        return (mean @ w).reshape(batch * length, -1)

    run = fxregion(
        causal_mean,
        fxregion.randn(3, 5, 4, requires_grad=True),
        fxregion.randn(4, 2, requires_grad=True),
        dynamic=True,
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["'mean'"]


def test_marked_dynamic_dimension_only(fxregion):
    x = fxregion.randn(6, 8, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    run = fxregion(Mlp().to(fxregion.device), x)
    run.check()
    assert f', 8][8, 1]{fxregion.device}"' in run.forward.text
    assert '"f32[s' in run.forward.text


def test_sizes_from_nonzero(fxregion):
    def selected(x, w):
        where = (x > 0).nonzero().squeeze(1)
        with annotate({"compile_with_inductor": {"inductor_region": "selected"}}):
            return x[where] * w[where] + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = fxregion(
            selected,
            fxregion.tensor([-1.0, 2.0, 0.5, -3.0, 4.0], requires_grad=True),
            fxregion.randn(5, requires_grad=True),
        )
        run.check()
    assert '"f32[u0]' in run.joint.text
    assert [r.label for r in run.forward.regions] == ["'selected'"]


def test_number_from_item(fxregion):
    def repeated(x, count):
        length = count.item()
        with annotate({"compile_with_inductor": 0}):
            return x[:, None].expand(-1, length) * 2 + length

    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        run = fxregion(repeated, fxregion.randn(4), fxregion.tensor(3))
        run.check()
    assert [r.label for r in run.inference.regions] == ["default"]


def test_attention_over_any_length(fxregion):
    def attention(q, k, v):
        length = q.shape[0]
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            ahead = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
            scores = (q @ k.t()).masked_fill(ahead, float("-inf"))
            return scores.softmax(-1) @ v

    q, k, v = (fxregion.randn(5, 4, requires_grad=True) for _ in range(3))
    for tensor in (q, k, v):
        torch._dynamo.mark_dynamic(tensor, 0)
    run = fxregion(attention, q, k, v)
    run.check()
    assert [r.label for r in run.forward.regions] == ["'attention'"]
    assert '"f32[s' in run.forward.text


def test_region_input_whose_size_is_an_expression(fxregion):
    def model(x, w):
        doubled = torch.cat((x, x), dim=0)  # of size 2*s
        with annotate({"compile_with_inductor": 0}):
            return doubled * w + doubled.shape[0]

    run = fxregion(model, fxregion.randn(3, 4), fxregion.randn(4, requires_grad=True), dynamic=True)
    run.check()
    assert '"f32[2*s' in run.forward.text
    assert [r.label for r in run.forward.regions] == ["default"]


def test_rows_that_a_mask_selects(fxregion):
    def experts_input(x, scores, w):
        (rows,) = torch.where(scores > 0)
        with annotate({"compile_with_inductor": {"inductor_region": "expert"}}):
            h = (x[rows] @ w).relu() * scores[rows, None]
        return torch.zeros_like(x).index_add(0, rows, h)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = fxregion(
            experts_input,
            fxregion.randn(4, 3, requires_grad=True),
            fxregion.tensor([0.5, -1.0, 0.25, 2.0], requires_grad=True),
            fxregion.randn(3, 3, requires_grad=True),
        )
        run.check()
    assert '"f32[u0' in run.forward.text
    assert [r.label for r in run.forward.regions] == ["'expert'"]


def test_autocast_inside_a_region(fxregion):
    def model(x, w):
        with annotate({"compile_with_inductor": 0}):
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                h = x @ w
            return h.float().sin()

    run = fxregion(
        model, fxregion.randn(3, 8, requires_grad=True), fxregion.randn(8, 4, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.forward.regions] == ["default"]
    assert run.gradients["w"].dtype == torch.float32
