"""A compiled piece: what it is (:class:`Region`) and what the graph calls (:class:`RegionCall`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule

from pytest_fxregion._torch.modes import is_autocast_active, is_functorch_active, is_traced
from pytest_fxregion.errors import RegionError

from .artifacts import Artifact


@dataclass(frozen=True)
class Region:
    """One compiled piece of a graph.

    ``name``: ``inductor_region_N``, in topological order within the graph that was compiled, its
    subgraphs after itself.  ``label``: the annotation's region id as text, or ``default``.
    ``nodes``, ``inputs``, ``outputs``: names of the outer graph.  ``sources``: ``path:line`` of the
    annotated code, each once.  ``kind``: ``forward``, ``recompute``, ``backward``, or ``inference``
    where nothing says.  ``shared_with``: the earlier equal piece of the same graph whose artifact
    it uses.  ``body`` is as scooped and is never changed.
    """

    name: str
    label: str
    configs: Mapping[str, object]
    nodes: tuple[str, ...]
    body: GraphModule = field(repr=False, compare=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...]
    kind: str
    shared_with: str | None = None


class ArtifactCall:
    """The target of a region's node: operands in; the result out, or a sequence of several.

    ``boxed`` does the same for a list of operands, which it empties, so that each is freed at its
    last use inside the region.  ``is_lean``: Inductor's function is called without its wrappers.

    Compiled code reads memory, which a fake tensor has none of, and who traces does not see it.
    There ``body`` runs, operator by operator; without one, as in a graph that was pickled, the call
    is refused.
    """

    def __init__(
        self, name: str, artifact: Artifact, *, is_single: bool, body: GraphModule | None = None
    ) -> None:
        self.__name__ = self.__qualname__ = name
        # fx's GraphPickler writes a target that wraps an artifact as that artifact.
        self.__wrapped__ = artifact.call
        self.is_single = is_single
        self.is_lean = artifact.generated is not None
        self.boxed = _boxed(artifact, name, is_single, _as_written(name, is_single, body))

    def __call__(self, *operands: object) -> object:
        """Run the region."""
        return self.boxed(list(operands))


class RegionCall(ArtifactCall):
    """The call of a region of a graph that was compiled in this process.

    ``traceable``: run the body's operators one by one where a functorch transform looks on, as in
    the subgraphs of flex attention.
    """

    def __init__(self, region: Region, artifact: Artifact, *, traceable: bool = False) -> None:
        is_single = len(region.outputs) == 1
        super().__init__(region.name, artifact, is_single=is_single, body=region.body)
        self.fxregion_region = region
        if traceable:
            as_written = _as_written(region.name, is_single, region.body)
            self.boxed = _traceable(self.boxed, as_written)


_Boxed = Callable[[list[object]], object]


def _boxed(artifact: Artifact, name: str, single: bool, as_written: _Boxed) -> _Boxed:
    call, generated = artifact.call, artifact.generated
    grad_enabled = torch.is_grad_enabled

    def whole(operands: list[object]) -> object:
        if is_traced(operands):
            return as_written(operands)
        results = call(*operands)
        if grad_enabled() and _requires_grad(operands) and not _requires_grad(results):
            warnings.warn(
                f"{name} was traced without gradients, so none flow through it to the operands "
                "that require them; call the graph under torch.no_grad() if that is meant",
                stacklevel=2,
            )
        operands.clear()
        return results[0] if single else results

    if generated is None:
        return whole

    if artifact.casts:

        def first(operands: list[object]) -> object:
            if grad_enabled() or is_autocast_active() or is_traced(operands):
                return whole(operands)
            return generated(operands)[0]

        def several(operands: list[object]) -> object:
            if grad_enabled() or is_autocast_active() or is_traced(operands):
                return whole(operands)
            return generated(operands)

    else:

        def first(operands: list[object]) -> object:
            if grad_enabled() or is_traced(operands):
                return whole(operands)
            return generated(operands)[0]

        def several(operands: list[object]) -> object:
            if grad_enabled() or is_traced(operands):
                return whole(operands)
            return generated(operands)

    return first if single else several


def _requires_grad(values: Iterable[object]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _as_written(name: str, single: bool, body: GraphModule | None) -> _Boxed:
    """Return what runs a region's operators one by one."""

    def run(operands: list[object]) -> object:
        if body is None:
            raise RegionError(
                f"{name} was called with fake tensors or while a graph is traced, and what was "
                "pickled has compiled code only, which needs real tensors"
            )
        results = body(*operands)
        operands.clear()
        return results[0] if single else results

    return run


def _traceable(boxed: _Boxed, as_written: _Boxed) -> _Boxed:
    def run(operands: list[object]) -> object:
        return as_written(operands) if is_functorch_active() else boxed(operands)

    return run
