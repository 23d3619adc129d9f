"""Artifacts folders of a suite's parts become one, or an error that says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.__main__ import main
from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.report.machine import FILE, MachineReport, TestEntry, write_report
from pytest_fxregion.review.candidates import offers
from pytest_fxregion.review.merge import merge
from tests.unit.review.artifacts import Artifacts, document


def part(base: Path, name: str, *tests: str) -> Artifacts:
    """A part whose tests ``tests`` have failed, each with a candidate."""
    (base / name).mkdir()
    made = Artifacts(base / name)
    for test in tests:
        made.hold(test, document("sin"))
        made.offer(test, document("cos"), old=document("sin"))
    return made


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [part(tmp_path, "one", "a", "c").folder, part(tmp_path, "two", "b").folder]


def test_parts_become_one_folder_that_review_reads(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts[0] / "snapshots/a.diff").write_text("the whole diff\n")
    output = tmp_path / "all" / FILE
    assert main(["merge", str(parts[0] / FILE), str(parts[1]), "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"3 tests, 3 candidates in {output}\n"
    assert [offer.nodeid for offer in offers(output.parent)] == ["tests/a", "tests/b", "tests/c"]
    for name, folder in (("a", parts[0]), ("b", parts[1]), ("c", parts[0])):
        path = f"snapshots/{name}.fx.txt"
        assert (output.parent / path).read_bytes() == (folder / path).read_bytes()
    assert (output.parent / "snapshots/a.diff").read_text() == "the whole diff\n"


def test_merging_again_gives_the_same(parts: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "all"
    arguments = ["merge", *map(str, parts), "-o", str(output)]
    assert main(arguments) == 0
    first = (output / FILE).read_bytes()
    assert main(arguments) == 0
    assert main(["merge", *map(str, parts[::-1]), "-o", str(tmp_path / "other")]) == 0
    assert (output / FILE).read_bytes() == first == (tmp_path / "other" / FILE).read_bytes()


RAN = TestEntry("tests/a", "passed")
LISTED = TestEntry("tests/a", "failed", earlier=True)


@pytest.mark.parametrize("tests", [(RAN, LISTED), (LISTED, RAN)])
def test_a_test_that_ran_counts_before_one_that_is_only_listed(
    tests: tuple[TestEntry, TestEntry],
) -> None:
    reports = [MachineReport("2", "cpu", (test,)) for test in tests]
    assert merge(reports, ["one", "two"]).tests == (RAN,)


def refused(capsys: pytest.CaptureFixture[str], *arguments: Path) -> str:
    *folders, output = map(str, arguments)
    assert main(["merge", *folders, "-o", output]) == 2
    assert not (Path(output) / FILE).exists()
    return capsys.readouterr().err


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads((folder / FILE).read_text())
    change(value)
    (folder / FILE).write_text(json.dumps(value))


def test_parts_of_different_runs_are_refused(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(parts[1], lambda value: value.update(torch="2.14.1"))
    assert (
        f"{parts[0]} is of torch 2.13.0 on cpu, {parts[1]} of torch 2.14.1 on cpu: "
        "merge the parts of one run"
    ) in refused(capsys, *parts, tmp_path / "all")


def test_a_test_that_ran_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [part(tmp_path, name, "a").folder for name in ("one", "two")]
    message = refused(capsys, *both, tmp_path / "all")
    assert f"tests/a ran in {both[0]} and in {both[1]}" in message


def test_two_values_for_one_snapshot_are_refused(tmp_path: Path) -> None:
    report = MachineReport("2", "cpu", tuple(part(tmp_path, "one", "a").tests))
    other = replace(report, tests=(replace(report.tests[0], nodeid="tests/b"),))
    with pytest.raises(SnapshotError, match="one and two have values for snapshots/a"):
        merge([report, other], ["one", "two"])


def test_a_projects_own_folder_is_not_written_into(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There the candidates would be accepted by merging them."""
    project = tmp_path / "one" / "checkout"
    before = (project / "snapshots/a.fx.txt").read_bytes()
    message = refused(capsys, *parts, project)
    assert "holds other things; merge into a folder of its own, as in -o merged/" in message
    assert (project / "snapshots/a.fx.txt").read_bytes() == before


def test_a_part_is_not_written_into(parts: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", *map(str, parts), "-o", str(parts[0])]) == 2
    assert "is one of the parts" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["../../secret.fx.txt", "/etc/passwd", "snapshots/a.py"])
def test_a_part_cannot_name_files_elsewhere(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    changed(parts[0], lambda value: value["tests"][0]["candidates"][0].update(candidate=path))
    assert path in refused(capsys, *parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_part_that_is_not_there_is_named(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, parts[0], tmp_path / "none", tmp_path / "all")
    assert f"cannot read {tmp_path / 'none' / FILE}: No such file" in message


def test_a_candidate_that_is_gone_is_named(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts[1] / "snapshots/b.fx.txt").unlink()
    assert "cannot read the candidate" in refused(capsys, *parts, tmp_path / "all")


def test_nothing_failed_is_merged_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        report = MachineReport("2", "cpu", (TestEntry(f"tests/{name}", "passed"),))
        (tmp_path / name / FILE).write_text(write_report(report))
    arguments = ["merge", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "all")]
    assert main(arguments) == 0
    assert len(json.loads((tmp_path / "all" / FILE).read_text())["tests"]) == 2
