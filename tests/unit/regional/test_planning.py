"""What kind of node a node is, where torch says it and where (torch 2.11) it does not."""

import pytest
from torch.fx import Graph, Node

from pytest_fxregion.regional.planning import is_backward, kind_of


def _graph(*outputs: str, marked: bool = False) -> dict[str, Node]:
    """A graph of three nodes and what each is tagged, of which ``outputs`` are handed out."""
    graph = Graph()
    found = {"saved": graph.placeholder("saved"), "tangents": graph.placeholder("tangents")}
    found["again"] = graph.call_function(abs, (found["saved"],))
    found["gradient"] = graph.call_function(max, (found["tangents"], found["again"]))
    found["output"] = graph.output(tuple(found[name] for name in outputs))
    for name, tag in (
        ("saved", "is_forward"),
        ("tangents", "is_backward"),
        ("again", "is_forward"),
        ("gradient", "is_backward"),
    ):
        found[name].meta["partitioner_tag"] = tag
        if marked:
            found[name].meta["autograd_backward"] = True
    return found


@pytest.mark.parametrize("marked", [False, True])
def test_a_forward_node_in_a_backward_graph_is_recomputed(marked: bool) -> None:
    found = _graph("gradient", marked=marked)
    in_backward = is_backward(list(found.values()))
    assert in_backward
    assert kind_of(found["again"], in_backward) == "recompute"
    assert kind_of(found["gradient"], in_backward) == "backward"


def test_in_a_joint_graph_a_forward_node_is_the_forward_one() -> None:
    found = _graph("again", "gradient")
    in_backward = is_backward(list(found.values()))
    assert not in_backward
    assert kind_of(found["again"], in_backward) == "forward"
    assert kind_of(found["gradient"], in_backward) == "backward"


def test_without_tags_it_is_inference() -> None:
    graph = Graph()
    node = graph.call_function(abs, (graph.placeholder("x"),))
    graph.output(node)
    in_backward = is_backward(list(graph.nodes))
    assert kind_of(node, in_backward) == "inference"


def test_a_function_that_takes_gradients_itself_is_no_backward() -> None:
    found = _graph("gradient")
    found["tangents"].meta.clear()
    assert not is_backward(list(found.values()))
