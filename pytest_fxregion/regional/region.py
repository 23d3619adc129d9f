"""A compiled piece: what it is (:class:`Region`) and what the graph calls (:class:`RegionCall`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule

from pytest_fxregion._torch.modes import is_autocast_active, is_functorch_active

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
    """

    def __init__(self, name: str, artifact: Artifact, *, is_single: bool) -> None:
        self.__name__ = self.__qualname__ = name
        # fx's GraphPickler writes a target that wraps an artifact as that artifact.
        self.__wrapped__ = artifact.call
        self.is_single = is_single
        self.is_lean = artifact.generated is not None
        self.boxed = _boxed(artifact, name, is_single)

    def __call__(self, *operands: object) -> object:
        """Run the region."""
        return self.boxed(list(operands))


class RegionCall(ArtifactCall):
    """The call of a region of a graph that was compiled in this process.

    ``traceable``: run the body's operators one by one where a functorch transform looks on, as in
    the subgraphs of flex attention.
    """

    def __init__(self, region: Region, artifact: Artifact, *, traceable: bool = False) -> None:
        super().__init__(region.name, artifact, is_single=len(region.outputs) == 1)
        self.fxregion_region = region
        if traceable:
            self.boxed = _traceable(self.boxed, region.body, self.is_single)


def _boxed(artifact: Artifact, name: str, single: bool) -> Callable[[list[object]], object]:
    call, generated = artifact.call, artifact.generated
    grad_enabled = torch.is_grad_enabled

    def whole(operands: list[object]) -> object:
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
            if grad_enabled() or is_autocast_active():
                return whole(operands)
            return generated(operands)[0]

        def several(operands: list[object]) -> object:
            if grad_enabled() or is_autocast_active():
                return whole(operands)
            return generated(operands)

    else:

        def first(operands: list[object]) -> object:
            return whole(operands) if grad_enabled() else generated(operands)[0]

        def several(operands: list[object]) -> object:
            return whole(operands) if grad_enabled() else generated(operands)

    return first if single else several


def _requires_grad(values: Iterable[object]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _traceable(
    boxed: Callable[[list[object]], object], body: GraphModule, single: bool
) -> Callable[[list[object]], object]:
    def run(operands: list[object]) -> object:
        if not is_functorch_active():
            return boxed(operands)
        results = body(*operands)
        operands.clear()
        return results[0] if single else results

    return run
