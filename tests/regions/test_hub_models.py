"""Blocks of the libraries that models come from; without the extra ``hub`` they are not run.

The annotation goes around a module of the library from outside, as its code is not ours to edit.
"""

import importlib

import pytest
from torch import nn
from torch.fx.traceback import annotate


def library(name):
    """Import a module of a library; skip where it is missing or does not go with this torch."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs the extra 'hub' ({name}: {error})")


class Annotated(nn.Module):
    """A module whose call is a region."""

    def __init__(self, module, region):
        super().__init__()
        self.module = module
        self.annotation = {"compile_with_inductor": {"inductor_region": region}}

    def forward(self, *args, **kwargs):
        with annotate(self.annotation):
            return self.module(*args, **kwargs)


def test_residual_block_of_torchvision(fxregion):
    block = library("torchvision.models.resnet").BasicBlock(4, 4)
    block.bn1 = Annotated(block.bn1, "norm")
    run = fxregion(block.to(fxregion.device), fxregion.randn(2, 4, 4, 4, requires_grad=True))
    run.check()
    assert [region.label for region in run.forward.regions] == ["'norm'"]
    assert len(run.joint.gradient_accumulations) == 1  # the residual


def test_language_model_of_transformers(fxregion):
    llama = library("transformers.models.llama.modeling_llama")
    configuration = library("transformers").LlamaConfig(
        vocab_size=13,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=16,
        attn_implementation="eager",
        use_cache=False,
    )
    with fxregion.seeded():
        model = llama.LlamaForCausalLM(configuration)
    for layer in model.model.layers:
        layer.mlp = Annotated(layer.mlp, "mlp")

    def logits(tokens):
        return model(input_ids=tokens).logits

    model.to(fxregion.device)
    run = fxregion(logits, fxregion.randint(0, 13, (1, 5)))
    # No snapshot: its text is that of the library's version.
    run.check_numerics()
    run.check_gradient_accumulation()
    assert {region.label for region in run.forward.regions} == {"'mlp'"}
    assert len(run.forward.regions) == configuration.num_hidden_layers
