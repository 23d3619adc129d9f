"""Numbers in ``{"stream": n}`` that no stream object stands behind."""

import pytest
import torch

from pytest_fxregion._torch.dynamo import is_stream_of_dynamo
from pytest_fxregion._torch.tracing import joint_streams
from pytest_fxregion.capture.streams import only_numbered_streams


@pytest.fixture
def node() -> torch.fx.Node:
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["custom"] = {"stream": 7}
    return node


@pytest.mark.parametrize("number", [7, -1, "side", None, 1.0])
def test_what_dynamo_has_not_numbered_is_no_stream(number: object) -> None:
    torch._dynamo.reset()
    assert not is_stream_of_dynamo(number)


def test_torch_sees_no_stream_where_none_was_numbered(node: torch.fx.Node) -> None:
    assert joint_streams.get_stream(node) == 7
    with only_numbered_streams():
        assert joint_streams.get_stream(node) is None
    assert joint_streams.get_stream(node) == 7
    assert node.meta["custom"] == {"stream": 7}
