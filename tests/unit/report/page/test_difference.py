"""What the page shows of a snapshot that no longer holds."""

from __future__ import annotations

from typing import Any

from pytest_fxregion.report.page.difference import beside, difference
from pytest_fxregion.snapshots.document import Document, write_document
from tests.unit.snapshots.texts import BLOCK, edited

MOVED = edited(
    BLOCK,
    {
        "joint": (("        # region: 0\n        add:", "        add:"),),
        "forward: inductor_region_0": (("return (add,)", "return (mul, add)"),),
    },
)


def text_of(document: Document) -> list[str]:
    return write_document(Document("", document.sections)).rstrip("\n").split("\n")


def sides(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Put both texts together again from equal lines and blocks."""
    old: list[str] = []
    new: list[str] = []
    at = 0
    for block in found["blocks"]:
        equal = found["lines"][at : block["at"]]
        old += equal
        assert len(old) == block["old"]
        old += [line for line, _ in block["pairs"] if line is not None]
        new += [*equal, *(line for _, line in block["pairs"] if line is not None)]
        at = block["at"] + block["count"]
    return [*old, *found["lines"][at:]], [*new, *found["lines"][at:]]


def test_words_nodes_and_lines_say_what_changed() -> None:
    found = difference(BLOCK, MOVED)
    assert "`add` in joint left region 0" in found["summary"]
    assert ("joint", "add") in {(each["stage"], each["subject"]) for each in found["changes"]}
    assert [pair for block in found["blocks"] for pair in block["pairs"]] == [
        ("        # region: 0", None),
        ("        return (add,)", "        return (mul, add)"),
    ]


def test_equal_lines_and_blocks_are_both_texts() -> None:
    old, new = sides(difference(BLOCK, MOVED))
    assert (old, new) == (text_of(BLOCK), text_of(MOVED))


def test_equal_documents_differ_nowhere() -> None:
    found = difference(BLOCK, BLOCK)
    assert (found["summary"], found["changes"], found["blocks"]) == ([], [], [])


def test_without_a_snapshot_the_whole_text_is_shown() -> None:
    found = difference(None, BLOCK)
    assert found["lines"] == text_of(BLOCK)
    assert found["blocks"] == []


def test_nodes_that_are_gone_are_not_among_those_to_be_marked() -> None:
    without = edited(BLOCK, {"joint": (('        cos: "f32[10][1]cuda:0" = ', "        "),)})
    assert all(change["kind"] != "removed" for change in difference(BLOCK, without)["changes"])


def test_lines_that_define_one_value_are_beside_each_other() -> None:
    old = ["a = f(x)", "b = g(a)", "return b"]
    new = ["# tag", "a = f(x, 1)", "c = h(a)", "b = g(c)", "return c"]
    assert list(beside(old, new)) == [
        (None, "# tag"),
        ("a = f(x)", "a = f(x, 1)"),
        (None, "c = h(a)"),
        ("b = g(a)", "b = g(c)"),
        ("return b", "return c"),
    ]
