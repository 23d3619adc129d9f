"""Compile one body with Inductor.  In: a scooped body and its configuration; out: a callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch.fx import GraphModule

from pytest_fxregion._torch import (
    FakeTensorMode,
    patched_inductor_config,
    standalone_compile,
    tracing_with,
    without_node_metadata,
    without_second_remat,
)
from pytest_fxregion.errors import RegionError

Artifact = Callable[..., Sequence[object]]


def compile_body(
    body: GraphModule,
    configs: Mapping[str, object],
    fake_mode: FakeTensorMode,
    *,
    name: str,
    sources: Sequence[str] = (),
) -> Artifact:
    """Inductor's artifact for ``body``: takes its operands, gives a sequence of its results.

    Works inside ``torch.compile`` and without it: where there is no tracing context of the values'
    fake mode, one is made.  ``body`` is left as it is.

    Raises :class:`RegionError` naming the region, its source lines and its configuration.
    """
    operands = [node.meta["val"] for node in body.graph.find_nodes(op="placeholder")]
    try:
        with (
            patched_inductor_config(dict(configs)),
            tracing_with(fake_mode),
            without_node_metadata(),
            without_second_remat(),
        ):
            artifact: Artifact = standalone_compile(body, operands)
    except Exception as error:
        where = f" ({', '.join(sources)})" if sources else ""
        settings = f" under {dict(configs)!r}" if configs else ""
        raise RegionError(
            f"{name}{where} could not be compiled{settings}: {type(error).__name__}: {error}"
        ) from error
    return artifact
