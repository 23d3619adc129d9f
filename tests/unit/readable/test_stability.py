"""The same graph has the same text in every process, whatever ran there before."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import (  # type: ignore[import-untyped]
    aot_function,
    make_boxed_func,
)
from torch import Tensor, fx
from torch.fx.traceback import annotate, preserve_node_meta
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from pytest_fxregion._torch.tracing import aot_autograd, default_partition
from pytest_fxregion.readable import render
from pytest_fxregion.readable.counters import Counters

SOURCE_TREE = Path(__file__).parents[3]


class Owner:
    """Its default repr holds a memory address."""


def step(x: Tensor, n: int) -> Any:
    with annotate({"compile_with_inductor": {"inductor_region": {"b", "a"}}, "owner": Owner()}):
        y = x[:n].sin() * torch.tensor([1.0, 2.0, 3.0])
    with annotate({"z": {3, 1, 2}, "a": SOURCE_TREE / "model.py"}):
        return checkpoint(lambda t: t.cos().exp(), y, use_reentrant=False)


def texts_of_step() -> list[str]:
    texts = []

    def keep(gm: fx.GraphModule, _inputs: object) -> Any:
        texts.append(render(gm, root=SOURCE_TREE))
        return make_boxed_func(gm.forward)

    with preserve_node_meta():
        traced = aot_function(
            lambda x: step(x, 2), fw_compiler=keep, bw_compiler=keep, dynamic=True
        )
        traced(torch.ones(4, 3, requires_grad=True)).sum().backward()
    return texts


def test_text_does_not_depend_on_the_process(tmp_path: Path) -> None:
    """A process with another hash seed and working directory writes the same bytes."""
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(SOURCE_TREE)}
    other = subprocess.run(
        [sys.executable, "-P", __file__],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    texts = "".join(texts_of_step())
    assert texts == other.stdout.replace("__main__", __name__)
    assert "# region: {'a', 'b'}\n" in texts
    assert "# a: PosixPath('model.py')\n" in texts
    assert "# z: {1, 2, 3}\n" in texts
    assert " 0x" not in texts
    assert str(SOURCE_TREE) not in texts


def nested_checkpoints(x: Tensor) -> Any:
    def inner(t: Tensor) -> Any:
        return checkpoint(lambda u: u.sin().exp(), t, use_reentrant=False)

    return checkpoint(lambda t: inner(t).cos(), x, use_reentrant=False)


@torch.compiler.nested_compile_region
def block(x: Tensor) -> Tensor:
    return x.sin() * 2


@pytest.mark.parametrize("fn", [nested_checkpoints, lambda x: block(block(x))])
def test_text_does_not_depend_on_what_was_traced_before(fn: Callable[..., Any]) -> None:
    """torch numbers checkpoints (pytorch#167735) and subgraph calls over the process."""

    def traced() -> list[str]:
        texts = []

        def keep(gm: fx.GraphModule, _inputs: object) -> Any:
            texts.append(render(gm))
            return make_boxed_func(gm.forward)

        torch._dynamo.reset()
        backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
        torch.compile(fn, backend=backend)(torch.ones(3, requires_grad=True)).sum().backward()
        return texts

    assert traced() == traced()


def saved_matmuls(x: Tensor, w: Tensor) -> Any:
    def policy(_context: object, operator: object, *_args: object, **_kwargs: object) -> Any:
        is_matmul = operator is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if is_matmul else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def layer(t: Tensor) -> Tensor:
        return (t @ w).sin() * 2

    first: Any = checkpoint(layer, x, use_reentrant=False)
    return checkpoint(layer, first, use_reentrant=False, context_fn=contexts)


def test_each_checkpointed_call_has_its_number_in_every_stage() -> None:
    numbers: dict[str, dict[str, str]] = {}
    counters = Counters()

    def keep(stage: str, gm: fx.GraphModule) -> None:
        shown = re.findall(r"ac_graph_id: (\d+)", render(gm, counters=counters))
        torchs = [n.meta["ac_graph_id"] for n in gm.graph.nodes if "ac_graph_id" in n.meta]
        numbers[stage] = dict(zip(torchs, shown, strict=True))
        assert set(re.findall(r"ac_graph_id: (\d+)", render(gm))) == {"0", "1"}

    def compiler(stage: str) -> Callable[[fx.GraphModule, object], Any]:
        def keep_and_run(gm: fx.GraphModule, _inputs: object) -> Any:
            keep(stage, gm)
            return make_boxed_func(gm.forward)

        return keep_and_run

    def partition(gm: fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
        keep("joint", gm)
        return default_partition(gm, inputs, **kwargs)

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), partition_fn=partition
    )
    x, w = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
    out: Any = torch.compile(saved_matmuls, backend=backend)(x, w)
    out.sum().backward()
    assert list(numbers["joint"].values()) == ["0", "1"]
    assert list(numbers["backward"].values()) == ["1", "0"]  # the last call comes first in it
    assert numbers["joint"] == numbers["forward"] == numbers["backward"]


def test_ragged_sizes_are_numbered_in_order_of_appearance() -> None:
    """torch counts them over the process."""
    graph = fx.Graph()
    for name in ("x", "y", "z"):
        value = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        graph.placeholder(name).meta["val"] = value
    graph.output(())
    text = render(fx.GraphModule({}, graph))
    assert [f"[2, j{number}]" in text for number in range(5)] == [False, True, True, True, False]


if __name__ == "__main__":
    sys.stdout.write("".join(texts_of_step()))
