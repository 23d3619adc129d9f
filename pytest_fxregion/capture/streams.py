"""Leave numbers that a program annotates with ``{"stream": n}`` to the program.

torch keeps the stream of an operation in the same key: dynamo numbers the stream objects that a
function uses (``with torch.cuda.stream(s)``), and after tracing torch puts waits between those
numbers into the backward and gives each gradient accumulation one of them.  A number that no
object stands behind has nothing to wait for: of two, torch's partitioner fails on the waits or the
call does (2.11 to 2.15).  While :func:`only_numbered_streams` is active, torch's passes see the
numbers of objects only, and any other stays what it is, an annotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from torch import fx

from pytest_fxregion._torch.dynamo import is_stream_of_dynamo
from pytest_fxregion._torch.tracing import joint_streams


@contextmanager
def only_numbered_streams() -> Iterator[None]:
    """While active, a ``stream`` annotation counts for torch only where dynamo has numbered one."""
    annotated_stream = joint_streams.get_stream

    def numbered_stream(node: fx.Node) -> int | None:
        stream = annotated_stream(node)
        return stream if is_stream_of_dynamo(stream) else None

    with patch.object(joint_streams, "get_stream", numbered_stream):
        yield
