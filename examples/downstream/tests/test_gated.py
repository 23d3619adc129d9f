from gated import GatedLayer


def test_training(fxregion):
    layer = GatedLayer(8, 16).to(fxregion.device)
    x = fxregion.randn(4, 8, requires_grad=True)
    run = fxregion(layer, x)
    run.check()
    assert [region.label for region in run.forward.regions] == ["'gate'"]


def test_plain():
    assert GatedLayer(8, 16).gate.weight.shape == (16, 8)
