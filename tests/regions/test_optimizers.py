"""What a compiled training step does to parameters: torch.optim's own arithmetic, in place."""

import pytest
import torch
from torch.fx.traceback import annotate
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

UPDATE = {"compile_with_inductor": {"inductor_region": "update"}}


def changed(run):
    suffix = " after the call"
    return {d.name.removesuffix(suffix) for d in run.differences if d.name.endswith(suffix)}


@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
def test_adamw(fxregion, foreach):
    if fxregion.device.type == "cpu":
        pytest.skip("an optimizer's capturable form is for CUDA only")

    def step(parameter, gradient, first, second, steps):
        with annotate(UPDATE):
            adamw(
                [parameter],
                [gradient],
                [first],
                [second],
                [],
                [steps],
                foreach=foreach,
                capturable=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=0.1,
                weight_decay=0.01,
                eps=1e-8,
                maximize=False,
            )

    moments = [fxregion.zeros(3, 4) for _ in range(2)]
    run = fxregion(step, fxregion.randn(3, 4), fxregion.randn(3, 4), *moments, fxregion.zeros(()))
    run.check()
    assert changed(run) == {"parameter", "first", "second", "steps"}
    assert [region.label for region in run.inference.regions] == ["'update'"]


def test_sgd_with_momentum(fxregion):
    def step(parameter, gradient, momentum):
        with annotate(UPDATE):
            sgd(
                [parameter],
                [gradient],
                [momentum],
                foreach=False,
                weight_decay=0.1,
                momentum=0.9,
                lr=0.1,
                dampening=0.0,
                nesterov=True,
                maximize=False,
            )

    run = fxregion(step, *(fxregion.randn(3, 4) for _ in range(3)))
    run.check()
    assert changed(run) == {"parameter", "momentum"}
    assert [region.label for region in run.inference.regions] == ["'update'"]


def test_clipping_by_the_norm_of_all_gradients(fxregion):
    def clip(gradients, largest):
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        with annotate({"compile_with_inductor": {"inductor_region": "scale"}}):
            scale = (largest / (norm + 1e-6)).clamp(max=1.0)
            return [g * scale for g in gradients], norm

    run = fxregion(clip, [fxregion.randn(3, 4), fxregion.randn(4)], fxregion.tensor(0.5))
    run.check()
    assert [region.label for region in run.inference.regions] == ["'scale'"]


def test_average_of_weights_under_a_condition(fxregion):
    def track(average, weight, steps):
        with annotate({"compile_with_inductor": {"inductor_region": "average"}}):
            decay = torch.minimum((1 + steps) / (10 + steps), torch.full_like(steps, 0.999))
            average.lerp_(weight, 1 - decay)
        steps.add_(1)

    run = fxregion(track, fxregion.randn(3, 4), fxregion.randn(3, 4), fxregion.tensor(5.0))
    run.check()
    assert changed(run) == {"average", "steps"}
