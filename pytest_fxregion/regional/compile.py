"""Compile one body with Inductor.  In: a scooped body and its configuration; out: an artifact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from pytest_fxregion._torch import (
    FakeTensorMode,
    RestartAnalysis,
    forget_on_reset,
    generated_call,
    patched_inductor_config,
    standalone_compile,
    storage_key,
    tracing_with,
    without_node_metadata,
    without_second_remat,
)
from pytest_fxregion.errors import RegionError

from .effects import is_pure, may_alias


@dataclass(frozen=True)
class Artifact:
    """A compiled body.

    ``call``: takes the operands, gives a sequence of results, does whatever the body's mutations,
    aliases and autograd need.  ``generated``: Inductor's own function, where it alone is enough
    without autograd: takes a list, which it empties as it goes.  ``casts``: autocast may change
    what ``generated`` computes, since it calls operators.
    """

    call: Callable[..., Sequence[object]]
    generated: Callable[[list[object]], Sequence[object]] | None
    casts: bool


class ArtifactStore:
    """Artifacts by fingerprint, until ``torch._dynamo.reset()``."""

    def __init__(self) -> None:
        self._artifacts: dict[Hashable, Artifact] = {}

    def get(self, key: Hashable) -> Artifact | None:
        """Return the artifact of an equal piece that was compiled before."""
        return self._artifacts.get(key)

    def put(self, key: Hashable, artifact: Artifact) -> None:
        """Keep an artifact for later pieces."""
        self._artifacts[key] = artifact
        forget_on_reset(self)

    def reset(self) -> None:
        """Forget everything."""
        self._artifacts.clear()


ARTIFACTS = ArtifactStore()
"""The artifacts of this process: equal pieces share one across graphs and compiles."""


def compile_body(
    body: GraphModule,
    configs: Mapping[str, object],
    fake_mode: FakeTensorMode,
    *,
    name: str,
    sources: Sequence[str] = (),
) -> Artifact:
    """Compile ``body`` under ``configs``; it is left as it is.

    Works inside ``torch.compile`` and without it: where there is no tracing context of the values'
    fake mode, one is made.

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
            call = standalone_compile(body, operands)
    except RestartAnalysis:
        raise  # not a failure: dynamo traces again, and we are called again
    except Exception as error:
        where = f" ({', '.join(sources)})" if sources else ""
        settings = f" under {dict(configs)!r}" if configs else ""
        raise RegionError(
            f"{name}{where} could not be compiled{settings}: {type(error).__name__}: {error}"
        ) from error
    generated = generated_call(call) if _only_computes(body) else None
    return Artifact(call, *(generated or (None, False)))


def _only_computes(body: GraphModule) -> bool:
    """Whether the body writes to nothing and gives no two names to one storage."""
    roots: dict[Node, frozenset[Node]] = {}
    storages: set[int] = set()
    for node in body.graph.nodes:
        if node.op == "output":
            taken: set[Node] = set()
            for result in node.all_input_nodes:
                keys = set(storage_key(result.meta.get("val")))
                if keys & storages or roots[result] & taken or _holds_placeholder(roots[result]):
                    return False
                storages |= keys
                taken |= roots[result]
        elif node.op == "placeholder":
            roots[node] = frozenset((node,))
            storages.update(storage_key(node.meta.get("val")))
        elif is_pure(node):
            sources = frozenset().union(*(roots[source] for source in may_alias(node)))
            roots[node] = sources or frozenset((node,))
        else:
            return False
    return True


def _holds_placeholder(nodes: frozenset[Node]) -> bool:
    return any(node.op == "placeholder" for node in nodes)
