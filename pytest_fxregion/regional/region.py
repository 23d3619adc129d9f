"""A compiled piece: what it is (:class:`Region`) and what the graph calls (:class:`RegionCall`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch.fx import GraphModule

from .compile import Artifact


@dataclass(frozen=True)
class Region:
    """One compiled piece of a graph.

    ``name``: ``inductor_region_N``, in topological order within the graph that was compiled, its
    subgraphs after itself.  ``label``: the annotation's region id as text, or ``default``.
    ``nodes``, ``inputs``, ``outputs``: names of the outer graph.  ``sources``: ``path:line`` of the
    annotated code, each once.  ``kind``: ``forward``, ``recompute``, ``backward``, or ``inference``
    where nothing says.  ``shared_with``: the earlier equal piece whose artifact it uses.  ``body``
    is as scooped and is never changed.
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


class RegionCall:
    """The target of a region's node: operands in, the result out, or a sequence of several."""

    def __init__(self, region: Region, artifact: Artifact) -> None:
        self.__name__ = self.__qualname__ = region.name
        # fx's GraphPickler writes a target that wraps an artifact as that artifact.
        self.__wrapped__ = artifact
        self.fxregion_region = region
        self._single = len(region.outputs) == 1

    def __call__(self, *operands: object) -> object:
        """Run the region."""
        results = self.__wrapped__(*operands)
        return results[0] if self._single else results
