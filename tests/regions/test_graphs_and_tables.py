"""Models over what is not a grid: graphs by index, tables of embeddings and their products."""

import torch
from torch import nn
from torch.fx.traceback import annotate

EDGES = [[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, edges):
        source, target = edges
        h = self.linear(x)
        degree = torch.zeros(x.shape[0], device=x.device).index_add(
            0, target, torch.ones(target.shape[0], device=x.device)
        )
        with annotate({"compile_with_inductor": {"inductor_region": "messages"}}):
            scale = (degree + 1).rsqrt()
            messages = h[source] * (scale[source] * scale[target])[:, None]
        gathered = torch.zeros_like(h).index_add(0, target, messages)
        with annotate({"compile_with_inductor": {"inductor_region": "update"}}):
            return (gathered + h * (scale * scale)[:, None]).relu()


class GraphAttention(nn.Module):
    """A softmax over the edges that meet in a node."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3, bias=False)
        self.from_source = nn.Parameter(torch.randn(3) / 2)
        self.from_target = nn.Parameter(torch.randn(3) / 2)

    def forward(self, x, edges):
        source, target = edges
        h = self.linear(x)
        with annotate({"compile_with_inductor": {"inductor_region": "scores"}}):
            scores = (h @ self.from_source)[source] + (h @ self.from_target)[target]
            weights = nn.functional.leaky_relu(scores, 0.2).exp()
        total = torch.zeros(x.shape[0], device=x.device).index_add(0, target, weights)
        with annotate({"compile_with_inductor": {"inductor_region": "share"}}):
            messages = h[source] * (weights / total[target])[:, None]
        return torch.zeros_like(h).index_add(0, target, messages)


class Recommender(nn.Module):
    """Features and embeddings are multiplied with each other pair by pair (DLRM)."""

    def __init__(self, tables=3, width=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(5, width) for _ in range(tables))
        self.bottom = nn.Linear(2, width)
        pairs = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("pairs", pairs)
        self.top = nn.Linear(width + pairs.shape[1], 1)

    def forward(self, dense, rows):
        bottom = self.bottom(dense).relu()
        found = [table(rows[:, number]) for number, table in enumerate(self.tables)]
        features = torch.stack((bottom, *found), dim=1)
        with annotate({"compile_with_inductor": {"inductor_region": "interaction"}}):
            products = (features[:, :, None] * features[:, None]).sum(-1)
            chosen = products[:, self.pairs[0], self.pairs[1]]
            joined = torch.cat((bottom, chosen), dim=1)
        return self.top(joined).sigmoid()


def test_graph_convolution(fxregion):
    model = GraphConvolution().to(fxregion.device)
    run = fxregion(model, fxregion.randn(4, 4, requires_grad=True), fxregion.tensor(EDGES))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'messages'", "'update'"}
    assert len(run.joint.gradient_accumulations) == 1  # what is sent and what stays


def test_graph_attention(fxregion):
    model = GraphAttention().to(fxregion.device)
    run = fxregion(model, fxregion.randn(4, 4, requires_grad=True), fxregion.tensor(EDGES))
    run.check()
    assert {r.label for r in run.forward.regions} == {"'scores'", "'share'"}
    assert len(run.joint.gradient_accumulations) == 3  # h three times, the weights twice


def test_recommender(fxregion):
    model = Recommender().to(fxregion.device)
    run = fxregion(model, fxregion.randn(3, 2), fxregion.randint(0, 5, (3, 3)))
    run.check()
    assert [r.label for r in run.forward.regions] == ["'interaction'"]
    assert {f"tables.{number}.weight" for number in range(3)} <= set(run.gradients)


def test_recommender_inference(fxregion):
    model = Recommender().to(fxregion.device)
    with torch.no_grad():
        run = fxregion(model, fxregion.randn(3, 2), fxregion.randint(0, 5, (3, 3)))
    run.check()
    assert len(run.inference.regions) == 1
