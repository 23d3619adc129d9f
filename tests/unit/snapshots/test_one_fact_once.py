"""What follows from a change is not told beside it, and what is alike is one line."""

from __future__ import annotations

import pytest

from pytest_fxregion.snapshots.document import Document, Section
from pytest_fxregion.snapshots.graph import Node
from pytest_fxregion.snapshots.sizing import dense_order, gives_only_its_size
from tests.unit.snapshots.test_wording import document, graph, said


def of_size(batch: int, hidden: int = 8) -> Document:
    """Return a graph in which every size follows from the batch."""
    text = graph("x", "t = t.default(view)", "return (t,)").replace(
        "        t",
        f'        view: "f32[{batch}, 2, {hidden}][{2 * hidden}, {hidden}, 1]cpu" = '
        f"torch.ops.aten.view.default(x, [{batch}, 2, -1])\n        t",
    )
    text = text.replace('x: "f32[4][1]cpu"', f'x: "f32[{2 * batch}, {hidden}][{hidden}, 1]cpu"')
    text = text.replace('t: "f32[4][1]cpu"', f't: "f32[{hidden}, {batch}][1, {hidden}]cpu"')
    return document(joint=text)


def test_sizes_that_calls_are_given_and_strides_follow_from_shapes() -> None:
    assert said(of_size(2), of_size(3)) == [
        "`x` in joint: shape [4, 8] → [6, 8]",
        "`view` in joint: shape [2, 2, 8] → [3, 2, 8]",
        "`t` in joint: shape [8, 2] → [8, 3]",
    ]
    assert said(of_size(2), of_size(2, hidden=16)) == [
        "`x` in joint: shape [4, 8] → [4, 16]",
        "`view` in joint: shape [2, 2, 8] → [2, 2, 16]",
        "`t` in joint: shape [8, 2] → [16, 2]",
    ]


@pytest.mark.parametrize(
    ("old", "new", "only"),
    [
        (("·, [2, 8]", "f32[2, 8]"), ("·, [3, 8]", "f32[3, 8]"), True),
        (("·, [2, -1]", "f32[2, 8]"), ("·, [3, -1]", "f32[3, 8]"), True),
        (("·, [2, -1]", "f32[2, 8]"), ("·, [2, 8]", "f32[2, 8]"), False),
        (("·, [0, 1]", "f32[2, 8]"), ("·, [1, 0]", "f32[3, 8]"), False),
        (("·, [2], 1.0", "f32[2]"), ("·, [3], 2.0", "f32[3]"), False),
        (("·, [2], [1]", "f32[2][1]cpu"), ("·, [3], [2]", "f32[3][2]cpu"), True),
        (("·, [2], [1]", "f32[2][1]cpu"), ("·, [3], [2]", "f32[3][1]cpu"), False),
    ],
)
def test_only_the_sizes_of_the_result_follow_from_it(
    old: tuple[str, str], new: tuple[str, str], only: bool
) -> None:
    before, after = (
        Node("a", "call", "op", literal, ("x",), literal, type_) for literal, type_ in (old, new)
    )
    assert gives_only_its_size(before, after) is only


@pytest.mark.parametrize(
    ("shape", "stride", "order"),
    [
        ("[2, 3]", "[3, 1]", (0, 1)),
        ("[2, 3]", "[1, 2]", (1, 0)),
        ("[2, 1, 3]", "[3, 7, 1]", (0, 2)),
        ("[2, 3]", "[4, 1]", None),  # every fourth element of each row is left out
        ("[2, 3]", "[0, 1]", None),  # expanded
        ("[s27, 3]", "[3, 1]", None),
        ("[]", "[]", ()),
    ],
)
def test_the_order_of_a_dense_tensor_in_memory(
    shape: str, stride: str, order: tuple[int, ...] | None
) -> None:
    assert dense_order(shape, stride) == order


def test_another_stride_of_a_tensor_with_gaps_is_told_beside_its_shape() -> None:
    old = document(joint=graph("x", "return (x,)").replace("f32[4][1]", "f32[2, 4][8, 1]"))
    new = document(joint=graph("x", "return (x,)").replace("f32[4][1]", "f32[2, 5][9, 1]"))
    assert said(old, new) == [
        "`x` in joint: shape [2, 4] → [2, 5]",
        "`x` in joint: stride [8, 1] → [9, 1]",
    ]


def test_one_constant_of_many_layers_is_one_line() -> None:
    lines = [f"add_{k} = add.Tensor(x_{k}, 1e-06)" for k in range(6)]
    inputs = " ".join(f"x_{k}" for k in range(6))
    old = graph(inputs, *lines, f"return ({', '.join(f'add_{k}' for k in range(6))})")
    assert said(document(joint=old), document(joint=old.replace("1e-06", "1e-05"))) == [
        "6 nodes in joint: arguments x, 1e-06 → x, 1e-05 (`add_0`, `add_1`, `add_2`, `add_3`, …)"
    ]
    one = old.replace("x_3, 1e-06", "x_3, 1e-05")
    assert said(document(joint=old), document(joint=one)) == [
        "`add_3` in joint: arguments x_3, 1e-06 → x_3, 1e-05"
    ]


def sourced(*sources: str) -> Document:
    lines = [
        line
        for k, source in enumerate(sources)
        for line in (f"# file: {source}", f"sin_{k} = sin.default(x)")
    ]
    result = ", ".join(f"sin_{k}" for k in range(len(sources)))
    return document(joint=graph("x", *lines, f"return ({result})"))


def test_a_file_or_function_of_another_name_is_one_line_however_long_it_is() -> None:
    codes = [f"h = step_{k}(h, {'long' * 30})" for k in range(5)]
    old = sourced(*(f"a.py in f: {code}" for code in codes))
    where = "the same source lines in another"
    names = "(`sin_0`, `sin_1`, `sin_2`, `sin_3`, …)"
    assert said(old, sourced(*(f"b.py in f: {code}" for code in codes))) == [
        f"5 nodes in joint: {where} file, a.py → b.py {names}"
    ]
    assert said(old, sourced(*(f"a.py in g: {code}" for code in codes))) == [
        f"5 nodes in joint: {where} function, f → g {names}"
    ]
    assert said(old, sourced(*(f"b.py in g: {code}" for code in codes))) == [
        f"5 nodes in joint: {where} function, f of a.py → g of b.py {names}"
    ]
    # What is edited is told first.
    edited = [codes[0].replace("h,", "y,"), *codes[1:]]
    assert said(old, sourced(*(f"b.py in f: {code}" for code in edited))) == [
        f"`sin_0` in joint: source `{codes[0][:59]}…` → `{edited[0][:59]}…`",
        f"`sin_1`, `sin_2`, `sin_3`, `sin_4` in joint: {where} file, a.py → b.py",
    ]


def test_lines_that_differ_only_at_their_ends_are_shown_whole() -> None:
    one, other = (f"h = {'long' * 20} + {number}" for number in (1, 2))
    assert said(sourced(f"a.py in f: {one}"), sourced(f"a.py in f: {other}")) == [
        f"`sin_0` in joint: source `{one}` → `{other}`"
    ]


def test_a_graph_break_comes_first_and_once() -> None:
    whole = graph("x", "sin = sin.default(x)", "cos = cos.default(sin)", "return (cos,)")
    first = graph("x", "sin = sin.default(x)", "return (sin,)")
    second = graph("sin", "cos = cos.default(sin)", "return (cos,)")
    one = Document("", (Section("inference", whole),))
    two = Document(
        "", (Section("graph 0: inference", first), Section("graph 1: inference", second))
    )
    assert said(one, two)[:2] == [
        "the function is compiled as 2 graphs, not as 1 any more: a graph breaks "
        "(TORCH_LOGS=graph_breaks says where)",
        "the section `graph 1: inference` is new",
    ]
    assert said(two, one)[:2] == [
        "the function is compiled as 1 graph, not as 2",
        "the section `graph 1: inference` is gone",
    ]


def test_a_region_whose_operations_are_all_others_is_still_there() -> None:
    def scaled(operation: str) -> Document:
        body = ["# region: 'a'", f"y = {operation}.default(x, w)", "return (y,)"]
        return document(joint=graph("x w", *body))

    assert not [line for line in said(scaled("mm"), scaled("dot")) if "region" in line]


def test_a_removed_annotation_comes_before_what_it_has_for_a_consequence() -> None:
    old = graph(
        "x", "# region: 'a'", "sin = sin.default(x)", "y = sin.default(x)", "return (sin, y)"
    )
    new = graph("x", "sin = sin.default(x)", "return (sin, sin)")
    assert said(document(joint=old), document(joint=new))[0] == "region 'a' vanished from joint"


def test_many_kinds_of_operations_begin_with_how_many_there_are() -> None:
    kinds = ["sin", "cos", "tan", "exp", "log", "abs", "neg", "relu", "erf", "sqrt"]
    calls = [f"{kind} = {kind}.default(x)" for kind in kinds]
    old = graph("x", *calls[:1], "return (sin,)")
    new = graph("x", *calls, "erf_1 = erf.default(erf)", f"return ({', '.join([*kinds, 'erf_1'])})")
    lines = said(document(joint=old), document(joint=new))
    assert lines[0] == "added: 10 nodes in joint, of 9 kinds"
    assert lines[1] == "aten.erf.default added: `erf`, `erf_1` in joint"
    assert lines[9] == "... and 1 more kind added"


def test_nodes_of_many_compiled_regions_are_one_line() -> None:
    """An annotation that is moved changes a region of every layer."""

    def layers(count: int, annotated: bool) -> Document:
        calls, sections = [], []
        for k in range(count):
            body = [f"sin_{k} = sin.default(x)"]
            if annotated:
                body.append(f"cos_{k} = cos.default(sin_{k})")
                calls.append(f"        cos_{k} = inductor_region_{k}(x)")
            else:
                calls.append(f"        sin_{k} = inductor_region_{k}(x)")
                typed = f'cos_{k}: "f32[4][1]cpu"'
                calls.append(f"        {typed} = torch.ops.aten.cos.default(sin_{k})")
            name = "cos" if annotated else "sin"
            text = graph("x", *body, f"return ({name}_{k},)")
            sections.append(Section(f"forward: inductor_region_{k}", text))
        results = ", ".join(f"cos_{k}" for k in range(count))
        whole = graph("x", f"return ({results})").replace(
            "        return", "\n".join([*calls, "        return"])
        )
        return Document("", (Section("forward", whole), *sections))

    many = [layers(6, annotated) for annotated in (True, False)]
    names = "(`cos_0`, `cos_1`, `cos_2`, `cos_3`, …)"
    assert said(*many) == [f"6 nodes in forward left 6 compiled regions {names}"]
    assert said(*reversed(many)) == [f"6 nodes in forward entered 6 compiled regions {names}"]
    few = [layers(2, annotated) for annotated in (True, False)]
    assert said(*few) == [
        "`cos_0` in forward left inductor_region_0",
        "`cos_1` in forward left inductor_region_1",
    ]
