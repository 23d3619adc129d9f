"""Stands for Inductor where it compiles to something else: bodies run as they are, but changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from pytest_fxregion import FxRegion
from pytest_fxregion.device import CPU
from pytest_fxregion.options import STAGES

Change = Callable[[fx.GraphModule], Callable[..., Any]]


class Compiles:
    """Takes the place of ``standalone_compile``: each body becomes what ``change`` makes of it."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.count = 0

    def __call__(self, body: fx.GraphModule, operands: Sequence[Any], **_: Any) -> Any:
        self.count += 1
        return self.change(body)


def with_another(wrong: Any, right: Any) -> Change:
    """Compile every ``right`` operator to the ``wrong`` one."""

    def change(body: fx.GraphModule) -> fx.GraphModule:
        graph = fx.Graph()
        graph.output(graph.graph_copy(body.graph, {}))
        for node in graph.nodes:
            if node.target is right:
                node.target = wrong
        return fx.GraphModule(body, graph)

    return change


def scaled(factor: float) -> Change:
    """Multiply every result."""

    def change(body: fx.GraphModule) -> Callable[..., Any]:
        return lambda *operands: tuple(result * factor for result in body(*operands))

    return change


def harness(artifacts: Path | None = None) -> FxRegion:
    """An ``fxregion`` on the CPU without snapshots."""

    def snapshot(*_: Any, **__: Any) -> None:
        raise AssertionError("these runs have no snapshots")

    return FxRegion(
        test="tests/test_it.py::test_wrong",
        root=Path(__file__).parents[3],
        device=CPU,
        stages=STAGES,
        provenance="",
        snapshot=snapshot,
        artifacts=artifacts,
    )


def leaf(*shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.linspace(0.5, 1.5, count).reshape(shape).requires_grad_()
