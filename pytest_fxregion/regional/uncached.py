"""What AOTAutograd gets where it insists on caching: a result that it can run but must not save.

Its cache key does not hold annotations, so that a saved result would be used for the same function
with another annotation, or none (pytorch#185370).  What is costly, the compiled pieces, is cached
by Inductor under keys of their own, in which a changed configuration is a changed key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from pytest_fxregion._torch import BypassAOTAutogradCache, OutputCode


class UncachedOutput(OutputCode):
    """A regional graph as AOTAutograd's cache wants to see a compiled function."""

    _boxed_call = True

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__()
        self._graph_module = graph_module

    @property
    def graph(self) -> Any:
        """The graph that runs."""
        return self._graph_module.graph

    def print_readable(self, *args: Any, **kwargs: Any) -> str:
        """Return the graph's text."""
        return self._graph_module.print_readable(*args, **kwargs)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run the graph on a list of its inputs, which is emptied."""
        return self._graph_module(inputs)

    def post_compile(self, *_: Any) -> None:
        """Do nothing: the graph is ready."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing: the pieces hold their kernels."""

    def prepare_for_serialization(self) -> None:
        """Refuse; AOTAutograd goes on without saving."""
        raise BypassAOTAutogradCache("regional graphs: the key does not hold annotations")
