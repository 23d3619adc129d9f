"""Two folders of snapshots: what changed over the suite, by kind, and which tests it is in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_fxregion.__main__ import main
from pytest_fxregion.review.folders import FolderComparison, compare_folders, read_folder
from pytest_fxregion.review.grouping import group_changes
from pytest_fxregion.snapshots.changes import Change
from pytest_fxregion.snapshots.document import Document, Section, write_document
from tests.unit.review.artifacts import document

FORWARD = """\
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8][1]cuda:0"):
        # region: 0
        add: "f32[8][1]cuda:0" = inductor_region_0(x)
        exp: "f32[8][1]cuda:0" = torch.ops.aten.exp.default(add);  add = None
        return (exp, x)"""

BODY = """\
class GraphModule(torch.nn.Module):
    def forward(self, arg0: "f32[8][1]cuda:0"):
        # region: 0
        mul: "f32[8][1]cuda:0" = torch.ops.aten.mul.Tensor(arg0, 2);  arg0 = None
        # region: 0
        add: "f32[8][1]cuda:0" = torch.ops.aten.add.Tensor(mul, 1);  mul = None
        return (add,)"""

SAVED = 'x: "f32[8][1]cuda:0"  32 B'

SPLIT = {
    "forward": (
        '        add: "f32[8][1]cuda:0" = inductor_region_0(x)\n',
        '        mul: "f32[8][1]cuda:0" = inductor_region_0(x)\n'
        "        # region: 0\n"
        '        add: "f32[8][1]cuda:0" = inductor_region_1(mul);  mul = None\n',
    ),
}


def _trained(**edits: tuple[str, str]) -> Document:
    texts = {
        "forward": FORWARD,
        "forward: saved for backward": SAVED,
        "forward: inductor_region_0": BODY,
    }
    for title, (before, after) in edits.items():
        key = title.replace("_saved", ": saved for backward").replace(
            "_body", ": inductor_region_0"
        )
        assert before in texts[key]
        texts[key] = texts[key].replace(before, after)
    return Document("torch 1", tuple(Section(title, text) for title, text in texts.items()))


def _renamed(held: Document, before: str, after: str) -> Document:
    """Return the document with a node of its first section renamed."""
    first, *rest = held.sections
    text = re.sub(rf"(?<!aten\.)\b{before}\b", after, first.text)
    return Document("torch 2", (Section(first.title, text), *rest))


SPLIT_REGION = Document(
    "torch 2",
    (
        Section("forward", FORWARD.replace(*SPLIT["forward"])),
        Section("forward: saved for backward", SAVED),
        Section(
            "forward: inductor_region_0",
            BODY.replace("return (add,)", "return (mul,)")
            .replace("        # region: 0\n        add: ", "        add: ")
            .replace(
                '        add: "f32[8][1]cuda:0" = torch.ops.aten.add.Tensor(mul, 1);  mul = None\n',
                "",
            ),
        ),
        Section(
            "forward: inductor_region_1",
            "class GraphModule(torch.nn.Module):\n"
            '    def forward(self, arg0: "f32[8][1]cuda:0"):\n'
            "        # region: 0\n"
            '        add: "f32[8][1]cuda:0" = torch.ops.aten.add.Tensor(arg0, 1);  arg0 = None\n'
            "        return (add,)",
        ),
    ),
)

SAVES_MORE = _trained(
    forward=("return (exp, x)", "return (exp, x, exp)"),
    forward_saved=(SAVED, SAVED + '\nexp: "f32[8][1]cuda:0"  32 B'),
)

PAIRS = {
    "a/replaced[1]": (document("sigmoid"), document("tanh")),
    "a/replaced[2]": (document("sigmoid"), document("tanh")),
    "a/policy": (document("mm"), document("mm", tag="MUST_SAVE")),
    "b/equal": (document(), document(made_on="torch 2")),
    "b/renumbered": (
        _trained(),
        _renamed(_trained(), "exp", "exp_7"),
    ),
    "b/split": (_trained(), SPLIT_REGION),
    "b/shape": (
        document("sin"),
        Document(
            "torch 1", (Section("joint", document("sin").sections[0].text.replace("[4]", "[5]")),)
        ),
    ),
    "b/saves_more": (_trained(), SAVES_MORE),
    "c/accumulates": (
        _trained(),
        _trained(
            forward=(
                '        exp: "f32[8][1]cuda:0" = ',
                "        # gradient accumulation (is_gradient_acc)\n"
                '        add_1: "f32[8][1]cuda:0" = torch.ops.aten.add.Tensor(add, x)\n'
                '        exp: "f32[8][1]cuda:0" = ',
            )
        ),
    ),
    "c/removed": (document(), None),
    "c/added@cpu": (None, document()),
}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for test, pair in PAIRS.items():
        for name, held in zip("ab", pair, strict=True):
            if held is not None:
                file = tmp_path / name / f"{test}.fx.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(write_document(held))
    return tmp_path / "a", tmp_path / "b"


def _compared(folders: tuple[Path, Path]) -> FolderComparison:
    return compare_folders(*map(read_folder, folders))


def test_every_test_is_in_one_place(folders: tuple[Path, Path]) -> None:
    found = _compared(folders)
    assert found.equal == ("b/equal",)
    assert found.renumbered == ("b/renumbered",)
    assert (found.only_in_a, found.only_in_b) == (("c/removed",), ("c/added@cpu",))
    assert [each.test for each in found.changed] == [
        "a/policy",
        "a/replaced[1]",
        "a/replaced[2]",
        "b/saves_more",
        "b/shape",
        "b/split",
        "c/accumulates",
    ]


def test_equal_changes_of_several_tests_are_one(folders: tuple[Path, Path]) -> None:
    groups = {
        (group.heading, group.what): [(each.test, each.stages, each.detail) for each in group.tests]
        for group in _compared(folders).groups
    }
    joint, forward = ("joint",), ("forward",)
    assert groups[("operations replaced", "aten.sigmoid.default → aten.tanh.default")] == [
        ("a/replaced[1]", joint, ""),
        ("a/replaced[2]", joint, ""),
    ]
    assert groups[("activation checkpointing", "PREFER_RECOMPUTE → MUST_SAVE")] == [
        ("a/policy", joint, "")
    ]
    assert groups[("compiled regions", "a compiled region was split into 2")] == [
        ("b/split", forward, "")
    ]
    assert groups[("dtypes, shapes, strides, devices", "shape [4] → [5]")] == [
        ("b/shape", joint, "")
    ]
    assert groups[("saved for the backward", "more bytes")] == [
        ("b/saves_more", forward, "+32 B: 1 more saved")
    ]
    assert groups[("gradient accumulations", "appeared")] == [("c/accumulates", forward, "")]


def test_saved_values_come_to_a_number_of_bytes_where_they_have_one() -> None:
    def said(*sizes: tuple[str, str]) -> tuple[str, str]:
        changes = [Change("forward", "saved", "x", *pair) for pair in sizes]
        (group,) = group_changes([("test", changes)])
        return group.what, group.tests[0].detail

    assert said(("32 B f32[8]", ""), ("", "8 B f32[2]")) == (
        "fewer bytes",
        "-24 B: 1 more, 1 less saved",
    )
    assert said(("32 B f32[8]", "32 B i32[8]")) == (
        "other values of the same size",
        "1 of another type saved",
    )
    assert said(("", "4*s27 B f32[s27]"), ("", "4 B f32[]")) == (
        "more bytes",
        "+4 B + 4*s27 B: 2 more saved",
    )
    assert said(("4*s27 B f32[s27]", ""), ("", "4 B f32[]")) == (
        "more or fewer bytes",
        "+4 B - 4*s27 B: 1 more, 1 less saved",
    )


def test_the_page(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *map(str, folders)]) == 1
    page = capsys.readouterr().out
    a, b = folders
    assert page.startswith(
        f"A: {a}, 10 snapshots (torch 1)\n"
        f"B: {b}, 10 snapshots (torch 1; torch 2)\n"
        "\n"
        "     1 equal\n"
        "     1 with other numbers in names only\n"
        "     7 changed\n"
        "     1 only in A\n"
        "     1 only in B\n"
    )
    assert (
        "\n== operations replaced (2 tests)\n"
        "aten.sigmoid.default → aten.tanh.default\n"
        "    a/replaced[1] (joint)\n"
        "    a/replaced[2] (joint)\n"
    ) in page
    assert "\n== other numbers in names only (1 test)\n    b/renumbered\n" in page
    assert "\n== only in A: removed tests, or not recorded in B (1 test)\n    c/removed\n" in page


def test_many_tests_are_cut_on_the_page_and_whole_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, op in (("a", "sin"), ("b", "cos")):
        (tmp_path / name).mkdir()
        for number in range(20):
            file = tmp_path / name / f"test_{number:02}.fx.txt"
            file.write_text(write_document(document(op)))
    arguments = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    main(arguments)
    page = capsys.readouterr().out
    assert "    test_11 (joint)\n    ... and 8 more; --json lists them all\n" in page
    main([*arguments, "--json"])
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert len(group["tests"]) == 20


def test_json_has_every_change(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, folders), "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["format"], value["version"]) == ("fxregion-compare", 1)
    assert value["a"]["tests"] == 10
    policy = value["changed"][0]
    assert policy == {
        "test": "a/policy",
        "summary": ["`mm` in joint: checkpoint tag PREFER_RECOMPUTE → MUST_SAVE"],
        "changes": [
            {
                "stage": "joint",
                "kind": "recompute",
                "subject": "mm",
                "before": "PREFER_RECOMPUTE",
                "after": "MUST_SAVE",
            }
        ],
    }


def test_equal_folders_have_status_0(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, _ = folders
    assert main(["compare", str(a), str(a)]) == 0
    assert capsys.readouterr().out.endswith("\n    10 equal\n     0 changed\n")


def test_a_damaged_file_is_named_and_the_rest_compared(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = folders
    (b / "b/equal.fx.txt").write_text("<<<<<<< HEAD\n")
    (a / "c/bytes.fx.txt").write_bytes(b"\xff")
    assert main(["compare", str(a), str(b)]) == 2
    page = capsys.readouterr().out
    assert "     2 unreadable\n" in page
    assert "b/equal.fx.txt:1: merge-conflict marker" in page
    assert "a/c/bytes.fx.txt: not UTF-8 text" in page
    assert "== operations replaced (2 tests)" in page
    assert "    b/equal\n" not in page  # neither equal nor only in A


@pytest.mark.parametrize("missing", ["nowhere", "empty"])
def test_a_folder_without_snapshots_is_an_error(
    folders: tuple[Path, Path],
    missing: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["compare", str(folders[0]), str(tmp_path / missing)]) == 2
    assert "no snapshots (*.fx.txt) below this folder" in capsys.readouterr().err
