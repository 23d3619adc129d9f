"""Tied embeddings: one weight is looked up at the bottom and multiplied with at the top."""

from torch import nn
from torch.fx.traceback import annotate


class TiedLanguageModel(nn.Module):
    def __init__(self, vocabulary: int = 11, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        with annotate({"compile_with_inductor": 0}):
            x = nn.functional.gelu(self.hidden(x))
        logits = x @ self.embedding.weight.t()
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_the_tied_weight_sums_two_gradients(fxregion):
    model = TiedLanguageModel().to(fxregion.device)
    tokens = fxregion.randint(0, 11, (2, 5))
    targets = fxregion.randint(0, 11, (2, 5))
    run = fxregion(model, tokens, targets)
    run.check()
    assert len(run.joint.gradient_accumulations) == 1
    assert set(run.gradients) == {"embedding.weight", "hidden.weight", "hidden.bias"}
