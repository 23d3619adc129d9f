"""What a training loop compiles beside the model: two losses at once, and the optimizer."""

import torch
from torch import nn
from torch.fx.traceback import annotate


class AdversarialLosses(nn.Module):
    """The discriminator sees real and generated samples, those with and without their history."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
        self.discriminator = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))

    def forward(self, noise, real):
        softplus = nn.functional.softplus
        generated = self.generator(noise)
        judged_real = self.discriminator(real)
        judged_detached = self.discriminator(generated.detach())
        judged = self.discriminator(generated)
        with annotate({"compile_with_inductor": {"inductor_region": "discriminator loss"}}):
            discriminator_loss = softplus(-judged_real).mean() + softplus(judged_detached).mean()
        with annotate({"compile_with_inductor": {"inductor_region": "generator loss"}}):
            generator_loss = softplus(-judged).mean()
        return generator_loss, discriminator_loss


def adamw_(parameter, gradient, first, second, step, rate=0.1, decay=0.01):
    """Update parameter and moments in place, as AdamW does."""
    step.add_(1)
    with annotate({"compile_with_inductor": {"inductor_region": "adamw"}}):
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        root = (second / (1 - 0.999**step)).sqrt() + 1e-8
        parameter.mul_(1 - rate * decay).sub_(rate * first / (1 - 0.9**step) / root)


def test_two_losses_of_one_step(fxregion):
    model = AdversarialLosses().to(fxregion.device)
    run = fxregion(model, fxregion.randn(4, 3), fxregion.randn(4, 4))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'discriminator loss'", "'generator loss'"}
    # The discriminator is called three times: two sums for each of its four parameters.
    assert len(run.joint.gradient_accumulations) == 8


def test_optimizer_step_in_place(fxregion):
    shape = (3, 4)
    run = fxregion(
        adamw_,
        fxregion.randn(*shape),
        fxregion.randn(*shape),
        fxregion.zeros(*shape),
        fxregion.zeros(*shape),
        fxregion.zeros(()),
    )
    run.check()
    compared = {d.name for d in run.differences}
    assert {f"{name} after the call" for name in ("parameter", "first", "second", "step")} <= (
        compared
    )
    assert [r.label for r in run.inference.regions] == ["'adamw'"]


def test_gradient_and_update_in_one_graph(fxregion):
    model = nn.Linear(4, 2).to(fxregion.device)

    def step(weight, bias, x, target):
        def loss(weight, bias):
            with annotate({"compile_with_inductor": 0}):
                return ((nn.functional.linear(x, weight, bias).tanh() - target) ** 2).mean()

        gradients = torch.func.grad(loss, argnums=(0, 1))(weight, bias)
        return tuple(p - 0.1 * g for p, g in zip((weight, bias), gradients, strict=True))

    run = fxregion(
        step, model.weight.detach(), model.bias.detach(), fxregion.randn(3, 4), fxregion.randn(3, 2)
    )
    run.check()
    assert {r.label for r in run.regions} == {"default"}


class Trainer:
    """A model with its optimizer; nothing of a step stays after a run."""

    def __init__(self, kind, device, **options):
        self.model = nn.Linear(4, 2).to(device)
        self.optimizer = kind(self.model.parameters(), lr=0.1, **options)
        self.steps = 0

    def step(self, x):
        with annotate({"compile_with_inductor": 0}):
            loss = self.model(x).sin().square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        return loss.detach()


def check_first_step(fxregion, trainer, state, **tolerance):
    run = fxregion(trainer.step, fxregion.randn(3, 4))
    run.check_numerics(**tolerance)
    assert {region.kind for region in run.regions} == {"forward", "backward"}
    assert {
        "output",
        "model.weight after the call",
        "steps after the call",
        *(f"optimizer.state[1]['{name}'] after the call" for name in state),
    } <= {difference.name for difference in run.differences}
    assert trainer.steps == 0
    assert not trainer.optimizer.state


def test_first_step_of_a_trainer(fxregion):
    trainer = Trainer(torch.optim.SGD, fxregion.device, momentum=0.9)
    check_first_step(fxregion, trainer, ["momentum_buffer"])


def test_first_step_of_a_trainer_with_adam(fxregion):
    # Compiled, Adam has `1 - 0.999**step` in float32, of which four digits are right; eager has it
    # in Python's floats, unless it is capturable.
    trainer = Trainer(torch.optim.Adam, fxregion.device)
    check_first_step(fxregion, trainer, ["exp_avg", "exp_avg_sq", "step"], rtol=1e-4, atol=1e-5)
