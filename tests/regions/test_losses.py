"""Losses, which are often what is annotated: reductions over logits that are read once or twice."""

import torch
from torch import nn
from torch.fx.traceback import annotate

LOSS = {"compile_with_inductor": {"inductor_region": "loss"}}


def labels(regions):
    return [region.label for region in regions]


def test_contrastive_loss_of_two_towers(fxregion):
    def clip_loss(images, texts, temperature):
        images = nn.functional.normalize(images, dim=-1)
        texts = nn.functional.normalize(texts, dim=-1)
        logits = images @ texts.t()
        with annotate(LOSS):
            logits = logits * temperature.exp()
            rows = (logits.logsumexp(0) - logits.diagonal()).mean()
            columns = (logits.logsumexp(1) - logits.diagonal()).mean()
            return (rows + columns) / 2

    run = fxregion(
        clip_loss,
        fxregion.randn(4, 3, requires_grad=True),
        fxregion.randn(4, 3, requires_grad=True),
        fxregion.tensor(1.0, requires_grad=True),
    )
    run.check()
    assert labels(run.forward.regions) == ["'loss'"]
    # The logits are reduced twice and their diagonal is taken twice; each tower is divided by a
    # norm of its own.
    assert len(run.joint.gradient_accumulations) == 3 + 2


def test_cross_entropy_with_smoothed_labels(fxregion):
    def smoothed(logits, targets):
        with annotate(LOSS):
            return nn.functional.cross_entropy(logits, targets, label_smoothing=0.1)

    run = fxregion(smoothed, fxregion.randn(4, 5, requires_grad=True), fxregion.randint(0, 5, (4,)))
    run.check()
    assert labels(run.forward.regions) == ["'loss'"]


def test_focal_loss(fxregion):
    def focal(logits, targets):
        with annotate(LOSS):
            entropy = nn.functional.binary_cross_entropy_with_logits(
                logits, targets, reduction="none"
            )
            return ((1 - (-entropy).exp()) ** 2 * entropy).mean()

    run = fxregion(focal, fxregion.randn(4, 3, requires_grad=True), fxregion.rand(4, 3).round())
    run.check()
    assert labels(run.forward.regions) == ["'loss'"]
    assert len(run.joint.gradient_accumulations) == 1  # the entropy, and what is made of it


def test_distillation_stops_the_teachers_gradient(fxregion):
    class Distilled(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher = nn.Linear(4, 5)
            self.student = nn.Linear(4, 5)

        def forward(self, x):
            with torch.no_grad():
                wanted = self.teacher(x)
            given = self.student(x)
            with annotate(LOSS):
                return nn.functional.kl_div(
                    (given / 2).log_softmax(-1), (wanted / 2).softmax(-1), reduction="batchmean"
                )

    run = fxregion(Distilled().to(fxregion.device), fxregion.randn(3, 4))
    run.check()
    assert set(run.gradients) == {"student.weight", "student.bias"}
    assert labels(run.forward.regions) == ["'loss'"]


def test_clipped_policy_loss(fxregion):
    def ppo(logits, actions, old, advantage):
        log_p = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
        with annotate(LOSS):
            ratio = (log_p - old).exp()
            clipped = ratio.clamp(0.8, 1.2) * advantage
            return -torch.minimum(ratio * advantage, clipped).mean()

    run = fxregion(
        ppo,
        fxregion.randn(5, 3, requires_grad=True),
        fxregion.randint(0, 3, (5,)),
        fxregion.randn(5),
        fxregion.randn(5),
    )
    run.check()
    assert labels(run.forward.regions) == ["'loss'"]
    assert len(run.joint.gradient_accumulations) == 1  # the ratio


def test_margin_between_nearest_and_farthest(fxregion):
    def triplet(embedding, classes):
        distance = (embedding[:, None] - embedding[None]).square().sum(-1)
        same = classes[:, None] == classes[None]
        with annotate(LOSS):
            farthest = distance.masked_fill(~same, 0.0).amax(1)
            nearest = distance.masked_fill(same, float("inf")).amin(1)
            return (farthest - nearest + 0.5).relu().mean()

    run = fxregion(triplet, fxregion.randn(4, 3, requires_grad=True), fxregion.tensor([0, 0, 1, 1]))
    run.check()
    assert len(run.joint.gradient_accumulations) == 2  # the distances, and both their ends
