"""Keep from Inductor what is no stream.  In: a body; out: nothing, it is hidden for a scope.

Inductor too takes ``custom["stream"]`` for the number of a stream object, and writes code that
looks the object up.  Numbers that the program itself has annotated stay annotations
(:mod:`pytest_fxregion.capture.streams` says the same to the tracer).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch.fx import GraphModule, Node

from pytest_fxregion._torch.dynamo import is_stream_of_dynamo

_KEY = "stream"


@contextmanager
def only_numbered_streams(body: GraphModule) -> Iterator[None]:
    """While active, nodes of ``body`` carry ``stream`` only where dynamo has numbered an object."""
    hidden: list[tuple[Node, object]] = []
    for module in body.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            custom = node.meta.get("custom")
            if not isinstance(custom, Mapping) or _KEY not in custom:
                continue
            if not is_stream_of_dynamo(custom[_KEY]):
                hidden.append((node, custom))
                node.meta["custom"] = {k: v for k, v in custom.items() if k != _KEY}
    try:
        yield
    finally:
        for node, custom in hidden:
            node.meta["custom"] = custom
