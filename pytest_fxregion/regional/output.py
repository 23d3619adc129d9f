"""What AOTAutograd gets where its results are cached: a graph that can be saved, and found again.

Its cache key does not hold annotations, so that a saved result would be used for the same function
with another annotation, or none (pytorch#185370).  The ``fxregion`` backend puts them into the key
(:func:`annotations_in_key`).  A result of :func:`~pytest_fxregion.regional.regional_inductor` in
somebody else's backend is not saved; the pieces, which are what is costly, are kept all the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Self

from torch import fx

from pytest_fxregion._torch.artifacts import compiler_stamp, dumped_module, loaded_module
from pytest_fxregion._torch.inductor import annotations_read_by_inductor
from pytest_fxregion._torch.result_cache import BypassAOTAutogradCache, OutputCode

from .annotation import ANNOTATION_KEY, NESTED_KEY, custom_of
from .serialize import callable_again, serializable
from .stored import text_of


class RegionalOutput(OutputCode):
    """A regional graph as AOTAutograd's cache wants to see a compiled function.

    ``is_saved``: its key holds the annotations of the graph that it was compiled from.
    """

    def __init__(self, graph_module: fx.GraphModule, *, is_saved: bool) -> None:
        super().__init__()
        self._boxed_call = True  # of the instance: a wrapper around it copies no others
        # Without bundles AOTAutograd asks for a key, and looks for it: there is none to be found.
        self._fx_graph_cache_key = "fxregion"
        self._graph_module: fx.GraphModule | None = graph_module
        self._is_saved = is_saved
        self._data = b""

    @property
    def graph(self) -> Any:
        """The graph that runs."""
        return self._ready().graph

    def print_readable(self, *args: Any, **kwargs: Any) -> str:
        """Return the graph's text."""
        return self._ready().print_readable(*args, **kwargs)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run the graph on a list of its inputs, which is emptied."""
        return self._ready()(inputs)

    def _ready(self) -> fx.GraphModule:
        if self._graph_module is None:
            self._graph_module = callable_again(loaded_module(self._data))
        return self._graph_module

    def post_compile(self, *_: Any) -> None:
        """Make the graph of a saved result; nothing is compiled."""
        self._ready()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing: the pieces hold their kernels."""

    def prepare_for_serialization(self) -> None:
        """Put the graph into a form that can be pickled, or refuse: AOTAutograd goes on unsaved."""
        if not self._is_saved:
            raise BypassAOTAutogradCache("regional graphs: the key does not hold annotations")
        vars(self).update(self.__getstate__())

    def __copy__(self) -> Self:
        """Copy without pickling, as AOTAutograd does before it asks for a form to be saved."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled; who pickles a result by hand knows what it was compiled from."""
        state = dict(vars(self))
        if self._graph_module is not None:
            written = dumped_module(serializable(self._graph_module))
            state |= {"_data": written, "_graph_module": None}
        return state


def annotations_in_key(graph: fx.GraphModule) -> None:
    """Have AOTAutograd's cache key of dynamo's ``graph`` hold its annotations, and who compiles it.

    The key holds a graph module's attributes.  An annotation that is not the same in every process
    (an object of the user's) is one that no key equals.
    """
    found: list[object] = []
    for prefix, module in graph.named_modules():
        if isinstance(module, fx.GraphModule):
            for i, node in enumerate(module.graph.nodes):
                custom = custom_of(node)
                if ANNOTATION_KEY in custom:
                    found.append((prefix, i, custom[ANNOTATION_KEY]))
                elif NESTED_KEY in custom:
                    found.append((prefix, i, custom[NESTED_KEY]))  # an object: not kept
                read = annotations_read_by_inductor(node)
                if read:
                    found.append((prefix, i, read))
    try:
        text = text_of(tuple(found))
    except TypeError:
        text = uuid.uuid4().hex
    graph.fxregion_annotations = f"{compiler_stamp()} {text}"  # type: ignore[assignment]  # no module
