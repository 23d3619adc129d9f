"""Question: what do annotations serve for, beside regions?

For whatever a later pass or a reader wants to know: pipeline stages, streams, names for debugging.
They go through the joint graph into forward, backward and text beside those that do; sums of
gradients carry none, as they belong to no single place of the program.
"""

from torch import nn
from torch.fx.traceback import annotate, annotate_fn
from torch.utils.checkpoint import checkpoint

from pytest_fxregion.readable import render


class TwoStages(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        with annotate({"pp_stage": 0}):
            h = self.first(x).relu()
        with annotate({"pp_stage": 1}):
            y = self.second(h).relu()
            with annotate({"compile_with_inductor": 0}):
                y = y * h.sigmoid() + h
        return y


def annotations(record, key):
    """Return the values of ``key`` that nodes of a stage carry, one set for each side."""
    sides = {True: set(), False: set()}
    for node in record.graph.graph.nodes:
        if key in (node.meta.get("custom") or {}):
            backward = node.meta.get("partitioner_tag") == "is_backward"
            sides[backward].add(node.meta["custom"][key])
    return sides[False], sides[True]


def carried_by_sums(record):
    """Return the keys that sums of gradients carry; there must be such sums."""
    sums = set(record.gradient_accumulations)
    assert sums
    nodes = [node for node in record.graph.graph.nodes if node.name in sums]
    return {key for node in nodes for key in node.meta.get("custom") or ()}


def test_pipeline_stages(fxregion):
    run = fxregion(TwoStages().to(fxregion.device), fxregion.randn(3, 4, requires_grad=True))
    run.check()
    assert annotations(run.joint, "pp_stage") == ({0, 1}, {0, 1})
    for record in (run.joint, run.forward, run.backward):
        assert "# pp_stage: 0" in record.text
        assert "# pp_stage: 1" in record.text
    assert not carried_by_sums(run.joint)
    assert not carried_by_sums(run.backward)
    assert [r.label for r in run.forward.regions] == ["default"]


def test_one_stream(fxregion):
    def model(x, w):
        with annotate({"stream": 1}):
            h = (x @ w).sin()
            return h.cos() * h

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    assert annotations(run.joint, "stream") == ({1}, {1})
    assert annotations(run.backward, "stream")[1] == {1}
    assert "# stream: 1" in run.backward.text
    assert len(run.joint.gradient_accumulations) == 1  # h
    assert not carried_by_sums(run.joint)
    assert not run.regions


def test_two_streams(fxregion):
    # torch alone takes the numbers for stream objects that dynamo has numbered, finds none, and
    # fails; see pytest_fxregion/capture/streams.py.
    def model(x, w):
        with annotate({"stream": 1}):
            left = (x @ w).sin()
        with annotate({"stream": 2}):
            right = (x @ w.t()).cos()
        return left * right

    run = fxregion(
        model, fxregion.randn(4, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    assert annotations(run.joint, "stream") == ({1, 2}, {1, 2})
    assert annotations(run.backward, "stream")[1] == {1, 2}
    assert not carried_by_sums(run.joint)


def test_region_over_two_streams(fxregion):
    def model(x, w):
        with annotate({"compile_with_inductor": 0}):
            with annotate({"stream": 1}):
                left = x.sin() * w
            with annotate({"stream": 2}):
                right = left.cos() + 1
        return left * right

    run = fxregion(
        model, fxregion.randn(5, requires_grad=True), fxregion.randn(5, requires_grad=True)
    )
    run.check()
    (region,) = run.forward.regions
    assert {n.meta["custom"]["stream"] for n in region.body.graph.nodes if "custom" in n.meta} == {
        1,
        2,
    }


def test_module_names(fxregion):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inward = nn.Linear(4, 4)
            self.outward = nn.Linear(4, 2)

        def forward(self, x):
            with annotate({"module_name": "inward"}):
                h = self.inward(x).tanh()
            with annotate({"module_name": "outward"}):
                return self.outward(h)

    run = fxregion(Named().to(fxregion.device), fxregion.randn(3, 4))
    run.check()
    assert annotations(run.joint, "module_name") == ({"inward", "outward"},) * 2
    assert "# module_name: 'outward'" in run.backward.text


def test_names_for_debugging_follow_the_values_that_are_computed_again(fxregion):
    def layer(x, w):
        with annotate({"name": "scores"}):
            scores = x @ w
        with annotate({"name": "weights"}):
            return scores.softmax(-1) * scores

    def model(x, w):
        return checkpoint(layer, x, w, use_reentrant=False)

    run = fxregion(
        model, fxregion.randn(3, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    assert annotations(run.joint, "name") == ({"scores", "weights"},) * 2
    again = set(run.backward.recomputed)
    named = {
        n.meta["custom"]["name"]
        for n in run.backward.graph.graph.nodes
        if n.name in again and "custom" in n.meta
    }
    assert named == {"scores", "weights"}


def test_nodes_renamed_by_annotation_keep_their_text(fxregion):
    def model(x, w):
        with annotate({"name": "scores"}):
            scores = x @ w
        with annotate({"name": "weights"}):
            return scores.softmax(-1)

    run = fxregion(
        model, fxregion.randn(3, 4, requires_grad=True), fxregion.randn(4, 4, requires_grad=True)
    )
    run.check()
    renamed = run.forward.graph
    for node in renamed.graph.nodes:
        name = (node.meta.get("custom") or {}).get("name")
        if name is not None:
            node._rename(name)
    renamed.recompile()
    kind = f'"f32[3, 4][4, 1]{fxregion.device}"'
    assert f"scores: {kind} = torch.ops.aten.mm.default(" in render(renamed)


def test_annotated_function(fxregion):
    @annotate_fn({"module_name": "gate"})
    def gate(x):
        return x.sigmoid() * x

    def model(x):
        return gate(x.sin()) + 1

    run = fxregion(model, fxregion.randn(5, requires_grad=True))
    run.check()
    assert annotations(run.joint, "module_name") == ({"gate"}, {"gate"})
    assert not carried_by_sums(run.joint)


def test_region_inside_a_stage_keeps_both(fxregion):
    def model(x, w):
        with annotate({"pp_stage": 3}):
            h = x.exp()
            with annotate({"compile_with_inductor": {"inductor_region": "inner"}}):
                return h * w + w

    run = fxregion(
        model, fxregion.randn(5, requires_grad=True), fxregion.randn(5, requires_grad=True)
    )
    run.check()
    assert [r.label for r in run.regions] == ["'inner'", "'inner'"]
    for region in run.regions:
        for node in region.body.graph.nodes:
            if node.op == "call_function":
                assert node.meta["custom"]["pp_stage"] == 3
