"""README's table of versions: what is read from results, and where it is written."""

import pytest

from scripts.versions_table import COLUMNS, Row, figures, replaced, table

JUNIT = (
    '<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="1" failures="2" '
    'skipped="3" tests="20"><testcase/></testsuite></testsuites>'
)
README = "Before.\n<!-- versions -->\nold\n<!-- end of versions -->\nAfter.\n"


def row(torch: str, python: str = "3.11.7", pytest: str = "9.2.0", failed: int = 0) -> Row:
    return Row((torch, "3.7.1", python, pytest, "7.0.2"), "virtual h100", 120, failed, 1)


def test_errors_count_as_failures() -> None:
    assert figures(JUNIT) == (14, 3, 3)


def test_rows_are_ordered_by_version_and_not_by_text() -> None:
    rows = [row("2.13.0+cpu", "3.13.0"), row("2.9.1"), row("2.13.0+cpu", pytest="8.0.0")]
    rows.append(row("2.13.0+cpu", "3.11.7", "9.2.0"))
    lines = table(rows).splitlines()[2:]
    assert [line.split(" | ")[0::2][0] for line in lines] == [
        "| 2.9.1",
        "| 2.13.0+cpu",
        "| 2.13.0+cpu",
        "| 2.13.0+cpu",
    ]
    assert [line.split(" | ")[2:4] for line in lines[1:]] == [
        ["3.11.7", "8.0.0"],
        ["3.11.7", "9.2.0"],
        ["3.13.0", "9.2.0"],
    ]


def test_every_row_has_every_column() -> None:
    header, rule, line = table([row("2.15.0", failed=2)]).splitlines()
    assert header.count("|") == rule.count("|") == line.count("|") == len(COLUMNS) + 1
    assert line.endswith("| 120 | 2 | 1 |")


def test_only_the_place_between_the_marks_is_written() -> None:
    rows = [row(r"2.13.0+cpu\1")]  # nothing in a version means anything to the search
    text = replaced(README, rows)
    assert text == README.replace("old\n", table(rows))
    assert replaced(text, rows) == text


@pytest.mark.parametrize("readme", ["no marks", README + README])
def test_a_readme_without_one_place_is_refused(readme: str) -> None:
    with pytest.raises(ValueError, match="places for the table of versions, not one"):
        replaced(readme, [row("2.13.0")])
