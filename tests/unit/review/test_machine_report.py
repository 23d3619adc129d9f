"""``fxregion.json``: written, read back, and refused where it cannot be believed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.report.machine import (
    Candidate,
    MachineReport,
    TestEntry,
    fingerprint,
    parse_report,
    resolve_inside,
    write_report,
)
from pytest_fxregion.snapshots.document import Document, Section
from tests.plugin.pytest_process import SOURCE_TREE
from tests.unit.review.schema import validate

CANDIDATE = Candidate(
    "snapshots/a@cpu.fx.txt",
    "snapshots/a@cpu.fx.txt",
    "snapshots/a.fx.txt",
    "00ff" * 16,
    "cpu",
    "changed",
    ("`mm` in joint: PREFER_RECOMPUTE → MUST_SAVE",),
)
REPORT = MachineReport(
    "2.13.0+cpu",
    "virtual h100 (no GPU)",
    (
        TestEntry("tests/test_a.py::test_a", "failed", candidates=(CANDIDATE,)),
        TestEntry("tests/test_b.py::test_b", "passed", True, ({"nodes": 3},)),
    ),
)


def test_a_report_is_read_back_as_it_was_written() -> None:
    assert parse_report(write_report(REPORT), source="x") == REPORT


def test_tests_are_sorted_by_their_ids() -> None:
    turned = MachineReport(REPORT.torch, REPORT.device, REPORT.tests[::-1])
    assert write_report(turned) == write_report(REPORT)


def test_numbers_that_json_does_not_have_are_text() -> None:
    figures = {"worst_of_allowed": float("nan"), "seconds": [float("-inf"), 1.5]}
    text = write_report(MachineReport("", "", (TestEntry("t", "passed", figures=(figures,)),)))
    (test,) = json.loads(text, parse_constant=pytest.fail)["tests"]
    assert test["figures"] == [{"worst_of_allowed": "nan", "seconds": ["-inf", 1.5]}]


def test_any_text_can_be_written_and_is_readable() -> None:
    test = TestEntry("tests/test_a.py::test_a[\udc80 → \x1b]", "passed")
    report = MachineReport("", "", (test,))
    text = write_report(report)
    assert "test_a[\\udc80 → \\u001b]" in text
    assert text.encode()
    assert parse_report(text, source="x") == report


def test_unknown_keys_are_left_out() -> None:
    value = json.loads(write_report(REPORT))
    value["later"] = value["tests"][0]["later"] = value["tests"][0]["candidates"][0]["later"] = 1
    assert parse_report(json.dumps(value), source="x") == REPORT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "ci/fxregion.json: not JSON: "),
        ("[]", "not a report of pytest-fxregion"),
        ('{"format": "fxregion", "version": 2}', "reads up to 1: upgrade it"),
        ('{"format": "fxregion", "version": 1}', "damaged: KeyError 'tests'"),
        ('{"format": "fxregion", "version": 1, "tests": 3}', "damaged: "),
        (write_report(REPORT).replace('"changed"', '"other"'), "kind is 'other'"),
        (write_report(REPORT).replace(f'"{"00ff" * 16}"', "null"), "compared_sha256 is None"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_file(text: str, message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        parse_report(text, source="ci/fxregion.json")
    assert message in str(caught.value)
    assert "ci/fxregion.json" in str(caught.value)


def test_a_fingerprint_is_of_the_sections_alone() -> None:
    section = Section("joint", "text")
    one, other = Document("torch 1", (section,)), Document("torch 2", (section,))
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(Document("torch 1", (Section("joint", "else"),)))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x.fx.txt",
        "../x.fx.txt",
        "snapshots/../../x.fx.txt",
        "./x.fx.txt",
        "snapshots//x.fx.txt",
        "C:/x.fx.txt",
        "snapshots\\..\\..\\x.fx.txt",
        "snapshots/x\n.fx.txt",
        "setup.py",
        "snapshots/x.fx.txt/",
        "",
    ],
)
def test_a_path_that_is_no_snapshot_below_the_root_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(SnapshotError):
        resolve_inside(tmp_path, path)


def test_a_path_through_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file.fx.txt").symlink_to(outside / "file.fx.txt")
    for path in ("folder/x.fx.txt", "file.fx.txt"):
        with pytest.raises(SnapshotError, match="through a link"):
            resolve_inside(root, path)


def test_a_root_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = resolve_inside(tmp_path / "link", "snapshots/test_a/x.fx.txt")
    assert found == tmp_path / "link/snapshots/test_a/x.fx.txt"


def test_the_documented_report_is_as_the_schema_says_and_can_be_read() -> None:
    page = (SOURCE_TREE / "docs/fxregion-json.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    validate(json.loads(shown))
    (test,) = parse_report(shown, source="docs").tests
    assert test.failure is not None


def test_what_is_written_is_as_the_schema_says() -> None:
    validate(json.loads(write_report(replace(REPORT, tests=REPORT.tests[:1]))))
