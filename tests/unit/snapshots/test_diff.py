"""What a person reads when a snapshot differs: each kind of change, in words."""

# ruff: noqa: E501 - so are the lines of graphs

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_fxregion.snapshots.diff import compare_documents, describe
from pytest_fxregion.snapshots.document import Document, Section
from tests.unit.snapshots.texts import BLOCK, BODY, FORWARD, JOINT, edited

Edits = dict[str, tuple[tuple[str, str], ...]]


def said(edits: Edits) -> list[str]:
    return list(describe(BLOCK, edited(BLOCK, edits)).summary)


def test_equal_documents_have_nothing_to_say() -> None:
    report = describe(BLOCK, replace(BLOCK, provenance="torch 2.14.0 | cuda"))
    assert (report.changes, report.summary, report.lines) == ((), (), ())


@pytest.mark.parametrize(
    ("edits", "summary"),
    [
        pytest.param(
            {"joint": (("ac_graph_id: 0 - PREFER_RECOMPUTE", "ac_graph_id: 0 - MUST_SAVE"),)},
            ["`mul` in joint: checkpoint tag PREFER_RECOMPUTE → MUST_SAVE"],
            id="checkpoint tag",
        ),
        pytest.param(
            {"joint": (("# ac_graph_id: 0 - PREFER_RECOMPUTE", "# recompute: PREFER_RECOMPUTE"),)},
            ["`mul` in joint: ac_graph_id 0 → none"],
            id="checkpointed call",
        ),
        pytest.param(
            {"joint": (("# primals_2: recompute: MUST_SAVE\n", ""),)},
            ["`primals_2` in joint: checkpoint tag MUST_SAVE → none"],
            id="tag of a placeholder",
        ),
        pytest.param(
            {"joint": (("        # region: 0\n        add:", "        add:"),)},
            ["`add` in joint left region 0"],
            id="left a region",
        ),
        pytest.param(
            {
                "joint": (
                    ("        # region: 0\n        add:", "        # region: 1\n        add:"),
                )
            },
            ["region 0 in joint was split into 0, 1"],
            id="region split",
        ),
        pytest.param(
            {"joint": (("# region: 0", "# region: 'attention'"),)},
            ["region 0 in joint is called 'attention' now"],
            id="region renamed",
        ),
        pytest.param(
            {"joint": (("        # region: 0\n", ""),)},
            ["region 0 vanished from joint"],
            id="region vanished",
        ),
        pytest.param(
            {"joint": (("        cos:", "        # region: 1\n        cos:"),)},
            ["region 1 appeared in joint"],
            id="region appeared",
        ),
        pytest.param(
            {"joint": (("        # gradient accumulation (is_gradient_acc)\n", ""),)},
            [
                "gradient accumulation `add_1` in joint vanished: f32[10][1]cuda:0 = "
                "mul_1 (from `return torch.cos(h)`) + sin (from `h = torch.sin(x)`)"
            ],
            id="gradient accumulation",
        ),
        pytest.param(
            {
                "joint": (
                    (
                        "        # gradient accumulation (is_gradient_acc)\n"
                        '        add_1: "f32[10][1]cuda:0" = '
                        "torch.ops.aten.add.Tensor(mul_1, sin);  mul_1 = sin = None\n",
                        "",
                    ),
                    ("(cos, add_1)", "(cos, mul_1)"),
                )
            },
            [
                "gradient accumulation `add_1` in joint vanished: f32[10][1]cuda:0 = "
                "mul_1 (from `return torch.cos(h)`) + sin (from `h = torch.sin(x)`)"
            ],
            id="gradient accumulation with its node",
        ),
        pytest.param(
            {
                "joint": (
                    (
                        "        mul_1:",
                        "        # gradient accumulation (is_gradient_acc)\n        mul_1:",
                    ),
                )
            },
            [
                "gradient accumulation `mul_1` in joint appeared: f32[10][1]cuda:0 = "
                "tangents_1 + add (from `h = h * w + 1`)"
            ],
            id="another gradient accumulation",
        ),
        pytest.param(
            {
                "joint": (("cos:", "tan:"), ("aten.cos", "aten.tan"), ("(cos,", "(tan,")),
                "forward": (("cos:", "tan:"), ("aten.cos", "aten.tan"), ("(cos,", "(tan,")),
            },
            ["`tan` in joint, forward: aten.cos.default → aten.tan.default"],
            id="operation replaced",
        ),
        pytest.param(
            {"joint": (("add.Tensor(mul, 1)", "add.Tensor(mul, 2)"),)},
            ["`add` in joint: arguments mul, 1 → mul, 2"],
            id="arguments",
        ),
        pytest.param(
            {"joint": (("add.Tensor(mul, 1)", "add.Tensor(mul, '·', 1)"),)},
            ["`add` in joint: arguments mul, 1 → mul, '·', 1"],
            id="text with the mark of an input",
        ),
        pytest.param(
            {
                "joint": (
                    (
                        "        cos:",
                        '        neg: "f32[10][1]cuda:0" = torch.ops.aten.neg.default(add)\n'
                        "        cos:",
                    ),
                    ("cos.default(add)", "cos.default(neg)"),
                )
            },
            ["aten.neg.default added: `neg` in joint"],
            id="operation added",
        ),
        pytest.param(
            {
                "joint": (
                    (
                        '        mul_1: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(tangents_1, add)'
                        ";  tangents_1 = add = None\n",
                        "",
                    ),
                    ("add.Tensor(mul_1, sin);  mul_1", "add.Tensor(tangents_1, sin);  tangents_1"),
                )
            },
            ["aten.mul.Tensor removed: `mul_1` in joint"],
            id="operation removed",
        ),
        pytest.param(
            {"joint": (("mul.Tensor(sin, primals_2)", "mul.Tensor(primals_2, sin)"),)},
            ["`mul` in joint: the same operands in another order: sin, primals_2 → primals_2, sin"],
            id="order of operands",
        ),
        pytest.param(
            {"joint": (("mul.Tensor(sin, primals_2)", "mul.Tensor(sin, primals_1)"),)},
            ["`mul` in joint: takes `primals_1` instead of `primals_2`"],
            id="inputs",
        ),
        pytest.param(
            {"joint": (("return (cos, add_1)", "return (add_1, cos)"),)},
            ["outputs of joint in another order or form"],
            id="order of outputs",
        ),
        pytest.param(
            {"joint": (("return (cos, add_1)", "return (cos, None, add_1)"),)},
            ["outputs of joint in another order or form"],
            id="no value among outputs",
        ),
        pytest.param(
            {"joint": (('cos: "f32[10][1]cuda:0"', 'cos: "bf16[20][2]cpu"'),)},
            [
                "`cos` in joint: dtype f32 → bf16",
                "`cos` in joint: shape [10] → [20]",
                "`cos` in joint: stride [1] → [2]",
                "`cos` in joint: device cuda:0 → cpu",
            ],
            id="type",
        ),
        *(
            pytest.param(
                {"joint": (('cos: "f32[10][1]cuda:0"', f"cos{annotation}"),)},
                [f"`cos` in joint: type f32[10][1]cuda:0 → {other}"],
                id=f"type {other}",
            )
            for annotation, other in (
                (': "Sym(s0)"', "Sym(s0)"),
                (': "DTensor(f32[10][1]cuda:0, R)"', "DTensor(f32[10][1]cuda:0, R)"),
                ("", "none"),
            )
        ),
        pytest.param(
            {"joint": (("        cos:", "        # stage: 'mlp'\n        cos:"),)},
            ["`cos` in joint: stage none → 'mlp'"],
            id="other annotation",
        ),
        pytest.param(
            {"joint": (("return (cos, add_1)", "return (cos, add_1, add)"),)},
            ["`add` in joint: returned now, too"],
            id="output",
        ),
        pytest.param(
            {"joint": (("return (cos, add_1)", "return (cos,)"),)},
            ["`add_1` in joint: no longer returned"],
            id="no output any more",
        ),
        pytest.param(
            {"joint": (("mul_1", "mul_7"), ("add_1", "add_9"))},
            ["renumbering only: 2 names (2 in joint)"],
            id="renumbering",
        ),
        pytest.param(
            {"joint": (("return torch.cos(h)", "return h.cos()"),)},
            ["`cos`, `mul_1`, `add_1` in joint: source `return torch.cos(h)` → `return h.cos()`"],
            id="source",
        ),
        pytest.param(
            {"forward: saved for backward": (("add:", 'cos: "f32[2048][1]cuda:0"  8192 B\nadd:'),)},
            ["1 value more is saved for the backward by forward: +8.0 KiB (`cos`)"],
            id="saved",
        ),
        pytest.param(
            {"forward: saved for backward": (('sin: "f32[10][1]cuda:0"  40 B\n', ""),)},
            ["1 value less is saved for the backward by forward: -40 B (`sin`)"],
            id="no longer saved",
        ),
        pytest.param(
            {
                "joint": (
                    (
                        "class GraphModule(torch.nn.Module):",
                        "class GraphModule(torch.nn.Module):\n    torch.fx.wrap('f')",
                    ),
                )
            },
            ["lines of joint that are no nodes differ"],
            id="other lines",
        ),
    ],
)
def test_each_kind_of_change_is_said_in_one_line(edits: Edits, summary: list[str]) -> None:
    assert said(edits) == summary


def test_an_operation_that_leaves_a_compiled_region_is_the_same_operation() -> None:
    new = edited(
        BLOCK,
        {
            "forward": (
                (
                    "# region: 0\n        add:",
                    'mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(sin, primals_2)\n        # region: 0\n        add:',
                ),
                ("inductor_region_0(sin, primals_2)", "inductor_region_0(mul);  mul = None"),
            ),
            "forward: inductor_region_0": (
                (', arg1: "f32[10][1]cuda:0"', ""),
                (
                    '        # region: 0\n        mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(arg0, arg1);  arg0 = arg1 = None\n',
                    "",
                ),
                ("(mul, 1);  mul = None", "(arg0, 1);  arg0 = None"),
            ),
        },
    )
    assert list(describe(BLOCK, new).summary) == [
        "`mul` in forward left region 0",
        "`mul` in forward left inductor_region_0",
    ]


def test_a_compiled_region_that_splits_is_said_so() -> None:
    first = BODY.replace(
        '        # region: 0\n        add: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(mul, 1);  mul = None\n',
        "",
    ).replace("(add,)", "(mul,)")
    second = (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, arg0: "f32[10][1]cuda:0"):\n'
        "        # file: model.py in block: h = h * w + 1\n"
        "        # region: 0\n"
        '        add: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(arg0, 1);  arg0 = None\n'
        "        return (add,)"
    )
    forward = FORWARD.replace(
        'add: "f32[10][1]cuda:0" = inductor_region_0(sin, primals_2)',
        'mul: "f32[10][1]cuda:0" = inductor_region_0(sin, primals_2)\n'
        "        # region: 0\n"
        '        add: "f32[10][1]cuda:0" = inductor_region_1(mul);  mul = None',
    )
    new = Document(
        "",
        (
            Section("joint", JOINT),
            Section("forward", forward),
            BLOCK.sections[2],
            Section("forward: inductor_region_0", first),
            Section("forward: inductor_region_1", second),
        ),
    )
    summary = "inductor_region_0 in forward was split into inductor_region_0, inductor_region_1"
    assert list(describe(BLOCK, new).summary) == [summary]
    assert list(describe(new, BLOCK).summary) == [
        "inductor_region_0, inductor_region_1 in forward were merged into inductor_region_0"
    ]


def test_a_region_under_another_number_is_no_change() -> None:
    new = Document(
        "",
        tuple(
            Section(s.title.replace("region_0", "region_3"), s.text.replace("region_0", "region_3"))
            for s in BLOCK.sections
        ),
    )
    assert list(compare_documents(BLOCK, new)) == []
    assert list(describe(BLOCK, new).summary) == [
        "no node differs, only numbers of compiled regions, the order of their arguments, "
        "comments or free lines"
    ]


def test_one_body_for_two_calls_is_compared_in_both_places() -> None:
    two = (
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x, w):\n"
        "        a = inductor_region_0(x, w)\n"
        "        b = inductor_region_1(a, w)\n"
        "        return (b,)"
    )
    old = Document(
        "",
        (
            Section("inference", two),
            Section("inference: inductor_region_0, inductor_region_1", BODY),
        ),
    )
    new = edited(
        old, {"inference: inductor_region_0, inductor_region_1": (("(mul, 1)", "(mul, 2)"),)}
    )
    assert [change.subject for change in compare_documents(old, new)] == ["a", "b"]


def test_a_body_that_does_not_fit_its_call_is_compared_by_its_name() -> None:
    forward = FORWARD.replace("(sin, primals_2)", "(sin, primals_2, 3)")
    old = edited(BLOCK, {"forward": ((FORWARD, forward),)})
    other = BODY.replace("arg0: ", "arg2, arg0: ").replace("(mul, 1)", "(mul, 2)")
    old = edited(
        old, {"forward: inductor_region_0": ((BODY, BODY.replace("arg0: ", "arg2, arg0: ")),)}
    )
    new = edited(
        old, {"forward: inductor_region_0": ((BODY.replace("arg0: ", "arg2, arg0: "), other),)}
    )
    assert list(describe(old, new).summary) == [
        "`add` in forward: inductor_region_0: arguments mul, 1 → mul, 2"
    ]


def test_parts_that_are_no_graphs_are_told_by_their_title() -> None:
    with_kernels = Document("", (*BLOCK.sections, Section("forward: kernels", "a")))
    other = Document("", (*BLOCK.sections, Section("forward: kernels", "b")))
    for old, new in ((with_kernels, other), (BLOCK, other), (other, BLOCK)):
        summary = describe(old, new).summary
        assert list(summary) == ["the text of forward: kernels differs"]


def test_stages_of_several_graphs_are_told_apart() -> None:
    old = Document("", (Section("graph 0: joint", JOINT), Section("graph 1: joint", JOINT)))
    new = edited(old, {"graph 1: joint": (("(mul, 1)", "(mul, 2)"),)})
    assert list(describe(old, new).summary) == [
        "`add` in graph 1: joint: arguments mul, 1 → mul, 2"
    ]


def test_a_stage_that_is_gone_or_new_is_named() -> None:
    one = Document("", (Section("joint", JOINT),))
    assert list(describe(BLOCK, one).summary) == ["the section `forward` is gone"]
    assert list(describe(one, BLOCK).summary) == ["the section `forward` is new"]


def test_bodies_of_higher_order_operators_are_compared() -> None:
    text = "\n".join(
        [
            "class GraphModule(torch.nn.Module):",
            "    def forward(self, x):",
            "        {0} = self.{0}",
            "        y = torch.ops.higher_order.cond({0}, x)",
            "        return (y,)",
            "",
            "    class {0}(torch.nn.Module):",
            "        def forward(self, x):",
            "            v = torch.ops.aten.{1}.default(x)",
            "            return (v,)",
        ]
    )
    old = Document("", (Section("inference", text.format("true_graph_0", "sin")),))
    new = Document("", (Section("inference", text.format("true_graph_1", "cos")),))
    assert describe(old, new).summary[0] == (
        "`v` in inference (true_graph_1): aten.sin.default → aten.cos.default"
    )


def test_a_large_diff_is_capped_and_says_so() -> None:
    new = edited(BLOCK, {"joint": (("f32[10]", "f32[20]"),)})
    report = describe(BLOCK, new)
    capped = report.capped(5, "artifacts/x.diff")
    assert capped[:5] == list(report.lines[:5])
    assert capped[5:] == [
        f"... {len(report.lines) - 5} more lines of this diff are left out; "
        "all of them in artifacts/x.diff"
    ]


def test_hunks_name_their_section() -> None:
    new = edited(BLOCK, {"forward: saved for backward": (("add:", "mul:"),)})
    assert [line for line in describe(BLOCK, new).lines if line.startswith("@@")] == [
        "@@ -40,5 +40,5 @@ forward: saved for backward"
    ]


def test_a_text_that_is_no_graph_is_compared_as_text() -> None:
    old, new = (Document("", (Section("kernels", text),)) for text in ("a\nb", "a\nc"))
    report = describe(old, new)
    assert list(report.summary) == ["the text of kernels differs"]
    assert [line for line in report.lines if line[0] in "+-"] == ["-b", "+c"]


@pytest.mark.parametrize(
    ("calls", "found"),
    [((1, 0), []), ((3, 5), []), ((0, 0), [("cos", "ac_graph_id: 1", "ac_graph_id: 0")])],
    ids=["swapped numbers", "other numbers", "one call"],
)
def test_checkpointed_calls_are_known_by_what_is_of_them(
    calls: tuple[int, int], found: list[tuple[str, str, str]]
) -> None:
    def joint(mul: int, cos: int) -> Document:
        tag = f"        # ac_graph_id: {cos} - PREFER_RECOMPUTE\n        cos:"
        edits = (("ac_graph_id: 0", f"ac_graph_id: {mul}"), ("        cos:", tag))
        return edited(BLOCK, {"joint": edits})

    changes = describe(joint(0, 1), joint(*calls)).changes
    assert [(change.subject, change.before, change.after) for change in changes] == found


def test_regions_that_become_one_are_said_to_be_merged() -> None:
    tag = "        # region: {}\n        add:"
    split = edited(BLOCK, {"joint": ((tag.format(0), tag.format(1)),)})
    assert describe(split, BLOCK).summary == ("region 0, 1 in joint were merged into 0",)


def test_nodes_that_a_backward_computes_again_are_told_in_both_directions() -> None:
    def backward(*edits: tuple[str, str]) -> Document:
        return edited(Document("", (Section("backward", FORWARD),)), {"backward": edits})

    def told(old: Document, new: Document) -> list[tuple[str, str, str]]:
        changes = describe(old, new).changes
        return [(c.subject, c.before, c.after) for c in changes if c.kind == "recomputed"]

    tag = "        # recompute: PREFER_RECOMPUTE\n"
    once = backward(("        sin:", f"{tag}        sin:"))
    tan = f'{tag}        tan: "f32[10][1]cuda:0" = torch.ops.aten.tan.default(sin)\n        cos:'
    more = backward(("        cos:", tan), ("cos.default(add)", "cos.default(tan)"))
    for changed, name in ((once, "sin"), (more, "tan")):
        assert told(backward(), changed) == [(name, "", "recomputed")]
        assert told(changed, backward()) == [(name, "recomputed", "")]
    first = "        # file: model.py in block: h = torch.sin(x)\n"
    saved = backward((first, f"        # primals_2: recompute: MUST_SAVE\n{first}"))
    assert told(backward(), saved) == []
