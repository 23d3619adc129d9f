"""A value has its name in every stage: what one has shown is known in those that follow."""

from __future__ import annotations

from pytest_fxregion.snapshots.document import Document
from tests.unit.snapshots.test_wording import document, graph, said


def model(layers: int, activation: str = "relu") -> Document:
    """Return forward and backward of equal layers, which a backward alone does not tell apart."""
    weights = " ".join(f"primals_{k + 1}" for k in range(layers))
    forward, backward = [], []
    h, gradient = "x", "tangents_1"
    for k in range(layers):
        forward += [f"t_{k} = t.default(primals_{k + 1})", f"mm_{k} = mm.default({h}, t_{k})"]
        forward.append(f"{activation}_{k} = {activation}.default(mm_{k})")
        h = f"{activation}_{k}"
    for k in reversed(range(layers)):
        n = 2 * layers - k - 1
        backward.append(f"mul_{n} = mul.Tensor({gradient}, {activation}_{k})")
        backward.append(f"mm_{n} = mm.default(mul_{n}, t_{k})")
        gradient = f"mm_{n}"
    saved = [f"{name}_{k}" for k in range(layers) for name in ("t", activation)]
    return document(
        joint=graph(f"{weights} x tangents_1", *forward, *backward, f"return ({h}, {gradient})"),
        forward=graph(f"{weights} x", *forward, f"return ({', '.join([h, *saved])})"),
        backward=graph(" ".join([*saved, "tangents_1"]), *backward, f"return ({gradient},)"),
    )


def test_one_more_layer_is_an_addition_and_nothing_else() -> None:
    words = said(model(3), model(4))
    assert words == [
        "input f32[4][1]cpu added: `primals_4` in joint, forward and `t_3`, `relu_3` in backward",
        "aten.t.default added: `t_3` in joint, forward",
        "aten.mm.default added: `mm_3`, `mm_4` in joint, `mm_3` in forward and `mm_4` in backward",
        "aten.relu.default added: `relu_3` in joint, forward",
        "aten.mul.Tensor added: `mul_4` in joint, backward",
        "`relu_3`, `t_3` in forward: returned now, too",
        "renumbered: 6 names in joint, 6 in backward",
    ]


def test_a_saved_value_of_another_operation_is_told_where_it_is_made() -> None:
    assert said(model(1), model(1, "tanh")) == [
        "`tanh_0` in joint, forward: aten.relu.default → aten.tanh.default",
    ]


def gated(first: str, second: str) -> Document:
    """Return a function of two weights of one shape, used in lines of their own."""
    weights = {"gate": "primals_1", "up": "primals_3"}
    if first == "up":
        weights = {"up": "primals_1", "gate": "primals_3"}
    lines: list[str] = []
    for n, name in enumerate((first, second)):
        lines += [
            f"# file: model.py in f: {name} = linear(x, w_{name})",
            f"t_{n} = t.default({weights[name]})",
            f"mm_{n} = mm.default(primals_2, t_{n})",
        ]
    places = {first: 0, second: 1}
    lines += [
        "# file: model.py in f: return silu(gate) - up",
        f"silu = silu.default(mm_{places['gate']})",
        f"sub = sub.Tensor(silu, mm_{places['up']})",
        "return (sub,)",
    ]
    return document(joint=graph("primals_1 primals_2 primals_3", *lines))


def test_lines_that_change_places_take_their_weights_along() -> None:
    assert said(gated("gate", "up"), gated("up", "gate")) == [
        "inputs of joint in another order or form",
        "`t_1`, `mm_1` in joint: earlier or later in the graph",
        "renumbered: 6 names in joint",
    ]


def test_a_layer_more_of_many_equal_ones_is_three_nodes_more() -> None:
    def chain(layers: int) -> Document:
        weights = " ".join(f"primals_{k}" for k in range(layers))
        lines, h = ["# file: model.py in f: h = h @ layer.weight.T"], "x"
        for k in range(layers):
            lines += [f"t_{k} = t.default(primals_{k})", f"mm_{k} = mm.default({h}, t_{k})"]
            h = f"mm_{k}"
        return document(joint=graph(f"{weights} x", *lines, f"return ({h},)"))

    assert said(chain(60), chain(61)) == [
        "input f32[4][1]cpu added: `primals_59` in joint",
        "aten.t.default added: `t_59` in joint",
        "aten.mm.default added: `mm_59` in joint",
        "renumbered: 3 names in joint",
    ]
