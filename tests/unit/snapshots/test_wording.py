"""Changes of several things at once: each is told once, the cause before what follows from it."""

# ruff: noqa: E501 - so are the lines of graphs

from __future__ import annotations

from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, Section


def graph(parameters: str, *lines: str) -> str:
    """Return the text of a graph; parameters and values without a type get ``f32[4][1]cpu``."""
    typed = ", ".join(f'{name}: "f32[4][1]cpu"' for name in parameters.split())
    body = []
    for line in lines:
        name, assigned, call = line.partition(" = ")
        if assigned and not line.startswith(("#", "return")):
            line = f'{name}: "f32[4][1]cpu" = torch.ops.aten.{call}'
        body.append(f"        {line}")
    return "\n".join(
        ["class GraphModule(torch.nn.Module):", f"    def forward(self, {typed}):", *body]
    )


def document(**sections: str) -> Document:
    """Return a document; ``forward_saved`` is the section ``forward: saved for backward``."""
    titles = {name: name.replace("_saved", ": saved for backward") for name in sections}
    return Document("", tuple(Section(titles[name], text) for name, text in sections.items()))


def said(old: Document, new: Document) -> list[str]:
    return list(describe(old, new).summary)


def saved(*values: str) -> str:
    return "\n".join(f'{name}: "f32[{size}]"  {size} B' for name, size in map(str.split, values))


def test_symbolic_sizes_count_as_others_do() -> None:
    text = graph("x", "return (x,)")
    old = document(forward=text, forward_saved=saved("a 64*s27*s77", "b 40", "c 4*s27"))
    assert said(old, document(forward=text, forward_saved=saved("b 40", "c 4*s27"))) == [
        "1 value less is saved for the backward by forward: -64*s27*s77 B (`a`)"
    ]
    other = document(forward=text, forward_saved=saved("d 128*s27*s77", "b 40", "e 40", "c 4*s27"))
    assert said(old, other) == [
        "2 values more are saved for the backward by forward: +40 B + 128*s27*s77 B (`d`, `e`)",
        "1 value less is saved for the backward by forward: -64*s27*s77 B (`a`)",
        "in all +40 B + 64*s27*s77 B saved for the backward by forward",
    ]


def test_a_line_of_saved_values_that_cannot_be_read_is_told_of() -> None:
    text = graph("x", "return (x,)")
    old = document(forward=text, forward_saved="a: an opaque object")
    assert said(old, document(forward=text, forward_saved="b: an opaque object")) == [
        "the text of forward: saved for backward differs"
    ]


def test_terms_of_a_sum_in_another_order_are_one_line() -> None:
    def sums(*terms: str) -> Document:
        calls = [f"{name} = {name}.default(x)" for name in terms]
        first, second, third = terms
        lines = (
            *calls[:2],
            f"add = add.Tensor({first}, {second})",
            calls[2],
            f"add_1 = add.Tensor(add, {third})",
            "return (add_1,)",
        )
        return document(joint=graph("x", *lines))

    assert said(sums("sin", "cos", "exp"), sums("exp", "sin", "cos")) == [
        "`add_1` in joint: the same operands in another order: sin + cos + exp → exp + sin + cos",
        "`cos`, `exp` in joint: earlier or later in the graph",
    ]


def test_another_grouping_of_a_sum_is_told_as_such() -> None:
    old = graph("a b c", "add = add.Tensor(a, b)", "add_1 = add.Tensor(add, c)", "return (add_1,)")
    new = graph("a b c", "add = add.Tensor(b, c)", "add_1 = add.Tensor(a, add)", "return (add_1,)")
    assert said(document(joint=old), document(joint=new)) == [
        "`add_1` in joint: the same operands in another order: a + b + c → the same in other steps"
    ]


def test_a_sum_of_other_terms_is_no_other_order() -> None:
    old = graph("a b c", "add = add.Tensor(a, b)", "add_1 = add.Tensor(add, c)", "return (add_1,)")
    new = old.replace("(add, c)", "(add, a)")
    assert said(document(joint=old), document(joint=new)) == [
        "`add_1` in joint: takes `a` instead of `c`"
    ]


def test_operands_of_a_difference_that_change_places_are_no_equal_sides() -> None:
    old = graph("a b", "sub = sub.Tensor(a, b)", "return (sub,)")
    new = old.replace("(a, b)", "(b, a)")
    assert said(document(joint=old), document(joint=new)) == [
        "`sub` in joint: the same operands in another order: a, b → b, a"
    ]


def test_inputs_are_called_by_their_names_in_the_new_text() -> None:
    old = graph(
        "x w",
        "t_5 = t.default(w)",
        "sin_5 = sin.default(x)",
        "mm_5 = mm.default(sin_5, x)",
        "cos_5 = cos.default(t_5)",
        "return (mm_5, cos_5)",
    )
    new = graph(
        "x w",
        "t = t.default(w)",
        "sin = sin.default(x)",
        "mm = mm.default(sin, t)",
        "cos = cos.default(t)",
        "return (mm, cos)",
    )
    assert said(document(joint=old), document(joint=new)) == [
        "`mm` in joint: takes `t` = t(w) instead of `x`",
        "renumbered: 4 names in joint",
    ]


def test_inputs_of_compiled_regions_are_called_by_their_names_outside() -> None:
    call = graph("x w y", "return (a,)").replace(
        "        return", "        a = inductor_region_0(x, w)\n        return"
    )
    body = graph("arg0 arg1", "a = mm.default(arg0, arg1)", "return (a,)")
    other = call.replace("region_0(x, w)", "region_0(x, y)")
    old, new = (
        Document("", (Section("forward", text), Section("forward: inductor_region_0", body)))
        for text in (call, other)
    )
    assert said(old, new) == ["`a` in forward: takes `y` instead of `w`"]


def test_nodes_without_a_region_now_left_it() -> None:
    names = [f"sin_{k}" for k in range(6)]
    lines = [["# region: {}", f"{name} = sin.default(x)"] for name in names]
    old = [line.format("'gates'") for pair in lines for line in pair]
    new = [
        line.format("none" if k < 5 else "'gates'") for k, pair in enumerate(lines) for line in pair
    ]
    result = f"return ({', '.join(names)})"
    before = document(joint=graph("x", *old, result))
    assert said(before, document(joint=graph("x", *new, result))) == [
        "5 nodes in joint left region 'gates' (`sin_0`, `sin_1`, `sin_2`, `sin_3`, …)"
    ]
    plain = before.sections[0].text.replace("        # region: 'gates'\n", "")
    none = before.sections[0].text.replace("'gates'", "none")
    assert said(document(joint=plain), document(joint=none)) == [
        "6 nodes in joint: region none → none (`sin_0`, `sin_1`, `sin_2`, `sin_3`, …)"
    ]


def test_a_node_that_is_no_longer_checkpointed_is_one_line() -> None:
    tagged = graph(
        "x",
        "# ac_graph_id: 0 - PREFER_RECOMPUTE",
        "sin = sin.default(x)",
        "return (sin,)",
    )
    plain = tagged.replace("        # ac_graph_id: 0 - PREFER_RECOMPUTE\n", "")
    assert said(document(joint=tagged), document(joint=plain)) == [
        "`sin` in joint: no longer checkpointed (was PREFER_RECOMPUTE)"
    ]
    assert said(document(joint=plain), document(joint=tagged)) == [
        "`sin` in joint: checkpointed now (PREFER_RECOMPUTE)"
    ]


RECOMPUTED = document(
    forward=graph(
        "x",
        "# ac_graph_id: 0 - PREFER_RECOMPUTE",
        "sin = sin.default(x)",
        "cos = cos.default(sin)",
        "return (cos, x)",
    ),
    forward_saved=saved("x 16"),
    backward=graph(
        "x tangents_1",
        "# ac_graph_id: 0 - PREFER_RECOMPUTE",
        "sin = sin.default(x)",
        "mul = mul.Tensor(sin, tangents_1)",
        "return (mul,)",
    ),
)
SAVED = document(
    forward=graph(
        "x",
        "# ac_graph_id: 0 - MUST_SAVE",
        "sin = sin.default(x)",
        "cos = cos.default(sin)",
        "return (cos, sin)",
    ),
    forward_saved=saved("sin 8*s0"),
    backward=graph("sin tangents_1", "mul = mul.Tensor(sin, tangents_1)", "return (mul,)"),
)


def test_saved_and_recomputed_values_are_told_once() -> None:
    assert said(RECOMPUTED, SAVED) == [
        "`sin` in forward: checkpoint tag PREFER_RECOMPUTE → MUST_SAVE",
        "1 value more is saved for the backward by forward: +8*s0 B (`sin`)",
        "1 value less is saved for the backward by forward: -16 B (`x`)",
        "in all -16 B + 8*s0 B saved for the backward by forward",
        "1 node less is recomputed in backward: `sin`",
    ]


def test_the_cause_comes_before_what_is_saved() -> None:
    old = RECOMPUTED
    new = Document(
        "",
        tuple(
            Section(
                s.title,
                s.text.replace("f32[4]", "f32[6]")
                .replace("f32[16]", "f32[24]")
                .replace("16 B", "24 B"),
            )
            for s in old.sections
        ),
    )
    assert said(old, new) == [
        "`x`, `sin`, `cos` in forward and `x`, `tangents_1`, `sin`, `mul` in backward: shape [4] → [6]",
        "1 value saved for the backward by forward has another type: +8 B (`x`)",
    ]


def test_a_gradient_accumulation_says_of_what_and_from_which_lines() -> None:
    lines = [
        "# file: model.py in f: h = x @ w",
        "mm = mm.default(x, tangents_1)",
        "# file: model.py in f: return h + x.sum()",
        "sum_1 = sum.default(tangents_1)",
    ]
    old = document(joint=graph("x tangents_1", *lines, "return (mm, sum_1)"))
    new = document(
        joint=graph(
            "x tangents_1",
            *lines,
            "# gradient accumulation (is_gradient_acc)",
            "add = add.Tensor(mm, sum_1)",
            "return (add, sum_1)",
        )
    )
    assert said(old, new) == [
        "gradient accumulation `add` in joint appeared: f32[4][1]cpu = "
        "mm (from `h = x @ w`) + sum_1 (from `return h + x.sum()`)"
    ]


def test_inputs_in_another_order_are_told_of_the_graph() -> None:
    old = graph("a b", "sin = sin.default(a)", "cos = cos.default(b)", "return (sin, cos)")
    new = graph("b a", "sin = sin.default(a)", "cos = cos.default(b)", "return (sin, cos)")
    assert said(document(joint=old), document(joint=new)) == [
        "inputs of joint in another order or form",
    ]


def test_another_attribute_is_another_value() -> None:
    text = graph("x", "mul = mul.Tensor(x, w)", "return (mul,)").replace(
        "        mul", "        w = self.w\n        mul"
    )
    assert said(document(joint=text), document(joint=text.replace("self.w", "self.b"))) == [
        "`w` in joint: self.w → self.b"
    ]
