"""What a region computes in the forward, and what it computes again in the backward."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.fx.traceback import annotate
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.regional import compile_regions
from pytest_fxregion.regional.region import RegionCall


def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with annotate({"compile_with_inductor": 0}):
        h = torch.softmax(x * w, -1)
        h = (h.exp() + 0.1).rsqrt() * x
    return torch.tanh(h @ w)


def save_products(_: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    if operator == torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


CHECKPOINTS: dict[str, Any] = {
    "full": partial(checkpoint, use_reentrant=False),
    "selective": partial(
        checkpoint,
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, save_products),
    ),
}


def assert_recomputed_bits_are_the_forwards(how: str, device: str) -> None:
    """Train one step; each value that a region makes twice must be the same bits.

    The piece in the backward gives more values than that in the forward, those that the backward
    of the region needs, so that the two do not share an artifact.
    """
    made: dict[str, dict[str, torch.Tensor]] = {"forward": {}, "recompute": {}}

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled = compile_regions(gm, inputs)
        for node in compiled.graph_module.graph.nodes:
            if isinstance(node.target, RegionCall):
                node.target.boxed = recorded(node.target)
        return compiled.graph_module

    def recorded(call: RegionCall) -> Any:
        run, region = call.boxed, call.fxregion_region

        def boxed(operands: list[object]) -> Any:
            results = run(operands)
            values: Any = (results,) if call.is_single else results
            if region.kind in made:
                made[region.kind].update(zip(region.outputs, values, strict=True))
            return results

        return boxed

    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(4, 4, device=device, requires_grad=True)
    w = torch.randn(4, 4, device=device, requires_grad=True)

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = CHECKPOINTS[how](block, x, w)
        return result.cos()

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    torch.compile(fn, backend=backend, fullgraph=True)(x, w).sum().backward()
    again = made["recompute"]
    common = [name for name in again if name in made["forward"]]
    assert common, "nothing was computed twice"
    for name in common:
        assert again[name].data_ptr() != made["forward"][name].data_ptr()
        assert torch.equal(again[name], made["forward"][name]), name
    eager = [t.detach().clone().requires_grad_() for t in (x, w)]
    fn(*eager).sum().backward()
    for ours, theirs in zip((x, w), eager, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
