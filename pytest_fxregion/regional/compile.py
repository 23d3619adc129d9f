"""Compile bodies with Inductor.  In: scooped bodies and their configurations; out: artifacts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import torch
from torch.fx import GraphModule

from pytest_fxregion._torch import (
    FakeTensorMode,
    RestartAnalysis,
    forget_generated_code,
    generated_call,
    kernels_awaited_later,
    patched_inductor_config,
    prepare_cpu_compiler,
    standalone_compile,
    tracing_with,
    without_node_metadata,
    without_second_remat,
)
from pytest_fxregion.errors import RegionError

from .artifacts import ARTIFACTS, Artifact
from .effects import only_computes


class PieceCompiler:
    """Compiles the pieces of one graph, equal ones once.

    A scope: the C++ kernels of all pieces are built side by side while further pieces are lowered,
    and are ready when it is left.  If anything fails, an artifact whose kernels were not ready is
    forgotten; those that were are kept.
    """

    def __init__(self) -> None:
        self._unready: list[tuple[Hashable, str, Callable[[], None]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._unready and error is None:
                _, about, wait = self._unready[0]
                with _failures_named(about):
                    wait()
                self._unready.pop(0)
        finally:
            for key, _, _ in self._unready:
                ARTIFACTS.drop(key)
            if self._unready or error is not None:
                forget_generated_code()  # a module whose kernels nobody waited for must not be used

    def artifact(
        self,
        key: Hashable,
        body: GraphModule,
        configs: Mapping[str, object],
        mode: FakeTensorMode,
        *,
        name: str,
        sources: Sequence[str] = (),
    ) -> Artifact:
        """Return the artifact of ``body`` under ``configs``; ``body`` is left as it is.

        Works inside ``torch.compile`` and without it: where there is no tracing context of the
        values' fake mode, one is made.

        Raises :class:`RegionError` naming the region, its source lines and its configuration.
        """
        artifact = ARTIFACTS.get(key)
        if artifact is not None:
            return artifact
        where = f" ({', '.join(sources)})" if sources else ""
        about = f"{name}{where} could not be compiled"
        if configs:
            about += f" under {dict(configs)!r}"
        operands = [node.meta["val"] for node in body.graph.find_nodes(op="placeholder")]
        with (
            _failures_named(about),
            patched_inductor_config(dict(configs)),
            tracing_with(mode),
            without_node_metadata(),
            without_second_remat(),
        ):
            if _is_on_cpu(body):
                prepare_cpu_compiler()
                with kernels_awaited_later() as waiting:
                    call = standalone_compile(body, operands)
                self._unready += [(key, about, wait) for wait in waiting]
            else:
                call = standalone_compile(body, operands)
        generated = generated_call(call) if only_computes(body) else None
        artifact = Artifact(call, *(generated or (None, False)))
        ARTIFACTS.put(key, artifact)
        return artifact


@contextmanager
def _failures_named(about: str) -> Iterator[None]:
    try:
        yield
    except RestartAnalysis:
        raise  # not a failure: dynamo traces again, and we are called again
    except Exception as error:
        raise RegionError(f"{about}: {type(error).__name__}: {error}") from error


def _is_on_cpu(body: GraphModule) -> bool:
    vals = (node.meta.get("val") for node in body.graph.nodes)
    return all(val.device.type == "cpu" for val in vals if isinstance(val, torch.Tensor))
