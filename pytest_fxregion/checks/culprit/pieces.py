"""Compiled pieces that can be put back to eager, and watched.  In: a compilation; out: its pieces.

A piece is one call of a region in a compiled graph.  That call asks its ``boxed`` function each
time it runs, so that another function can take the artifact's place, and nothing is compiled again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from pytest_fxregion._torch.autograd import times_written
from pytest_fxregion.capture.record import Compilation
from pytest_fxregion.kernels.source import Program
from pytest_fxregion.regional import Region
from pytest_fxregion.regional.region import RegionCall

Boxed = Callable[[list[object]], object]


@dataclass(frozen=True)
class CompiledPiece:
    """One call of a region.

    ``graph`` numbers the graph that dynamo made, ``stage`` is forward, backward or inference.
    """

    graph: int
    stage: str
    call: RegionCall = field(repr=False)
    program: Program = field(repr=False)

    @property
    def region(self) -> Region:
        """What was compiled."""
        return self.call.fxregion_region

    @property
    def artifact(self) -> object:
        """The compiled code; equal pieces have the same."""
        return self.call.__wrapped__


def compiled_pieces(compilation: Compilation) -> list[CompiledPiece]:
    """Return every piece in the order of graphs, stages and topology; bodies of operators too."""
    found: dict[int, CompiledPiece] = {}
    for number, graph in enumerate(compilation.graphs):
        for record in graph.stages():
            for module in record.graph.modules():
                if not isinstance(module, fx.GraphModule):
                    continue
                for node in module.graph.nodes:
                    call = node.target
                    if isinstance(call, RegionCall) and id(call) not in found:
                        program = record.programs.get(call.fxregion_region.name, Program((), ()))
                        found[id(call)] = CompiledPiece(number, record.stage, call, program)
    return list(found.values())


@contextmanager
def in_eager(pieces: Iterable[CompiledPiece]) -> Iterator[None]:
    """Run these pieces operator by operator inside the block."""
    with ExitStack() as scope:
        for piece in pieces:
            scope.enter_context(_replaced(piece.call, run_body(piece.call)))
        yield


def run_body(call: RegionCall) -> Boxed:
    """Return a function that does what the call does with the body's own operators."""
    body, single = call.fxregion_region.body, call.is_single

    def run(operands: list[object]) -> object:
        results = body(*operands)
        operands.clear()
        return results[0] if single else results

    return run


@contextmanager
def results_moved(pieces: Iterable[CompiledPiece]) -> Iterator[None]:
    """Run these pieces in eager, and give other numbers than they compute; integers as they are."""
    with ExitStack() as scope:
        for piece in pieces:
            scope.enter_context(_replaced(piece.call, _moved(piece.call)))
        yield


def _moved(call: RegionCall) -> Boxed:
    body, single = call.fxregion_region.body, call.is_single

    def run(operands: list[object]) -> object:
        tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
        versions = [times_written(tensor) for tensor in tensors]
        results = [_elsewhere(result) for result in body(*operands)]
        for tensor, version in zip(tensors, versions, strict=True):
            if times_written(tensor) != version:
                tensor.copy_(_elsewhere(tensor))
        operands.clear()
        return results[0] if single else results

    return run


def _elsewhere(value: Any) -> Any:
    """Return other numbers of the same size, zeros among them; what is no floating point as it is.

    By a sixteenth: what is left the same cannot depend on how the value is rounded.
    """
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return value * 1.0625 + 0.0625


@contextmanager
def operands_recorded(piece: CompiledPiece) -> Iterator[list[list[object]]]:
    """Give a list that fills with copies of the operands of each run of the piece, as they came.

    A copy keeps strides and offsets, and operands of one storage have one storage there too.
    """
    recorded: list[list[object]] = []
    run = piece.call.boxed

    def noted(operands: list[object]) -> object:
        recorded.append(copied(operands))
        return run(operands)

    with _replaced(piece.call, noted):
        yield recorded


def copied(operands: Iterable[object]) -> list[object]:
    """Copy values; tensors that share storage share it in the copy, at the same places."""
    plain = [o.detach() if isinstance(o, torch.Tensor) else o for o in operands]
    return copy.deepcopy(plain)


@contextmanager
def _replaced(call: RegionCall, boxed: Boxed) -> Iterator[None]:
    before = call.boxed
    call.boxed = boxed
    try:
        yield
    finally:
        call.boxed = before
