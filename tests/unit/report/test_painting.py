"""A failure in colours where the terminal has them, and the same text without."""

from __future__ import annotations

import io

import pytest
from _pytest._io import TerminalWriter

from pytest_fxregion.report.painting import PaintedFailure, Painter, found_first

TEXT = """\
tests/test_a.py:7: run.check()
snapshots/a.fx.txt differs from what was compiled on virtual h100 (no GPU):
- no line of the diff

@@ -1,2 +1,2 @@ joint
 class GraphModule
-        old
+        new

To accept what was compiled now, run:
pytest tests/test_a.py::test --fxregion --snapshot-update"""


def written(markup: bool) -> str:
    writer = TerminalWriter(io.StringIO())
    writer.hasmarkup = markup
    PaintedFailure(TEXT, "a.py::test").toterminal(writer)
    file = writer._file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_without_colours_it_is_the_text() -> None:
    assert written(False) == TEXT + "\n"


def test_the_diff_and_the_command_stand_out() -> None:
    lines = written(True).splitlines()
    assert lines[2] == "- no line of the diff"
    assert lines[4] == "\x1b[36m@@ -1,2 +1,2 @@ joint\x1b[0m"
    assert lines[6:8] == ["\x1b[31m-        old\x1b[0m", "\x1b[32m+        new\x1b[0m"]
    assert lines[10] == f"\x1b[1m{TEXT.splitlines()[-1]}\x1b[0m"
    assert lines[9] == "To accept what was compiled now, run:"


def test_the_summary_begins_with_what_was_found() -> None:
    crash = PaintedFailure(TEXT, "tests/test_a.py::test").reprcrash
    assert crash.message == (
        "- no line of the diff\n"
        "snapshots/a.fx.txt differs from what was compiled on virtual h100 (no GPU)"
    )
    assert str(crash) == "tests/test_a.py:7: - no line of the diff"  # as --tb=line has it


def test_of_many_lines_the_summary_has_the_first() -> None:
    first, *rest = (
        "a.fx.txt differs from what was compiled on cpu:",
        *(f"line {k}" for k in range(9)),
    )
    assert found_first([first, *rest]) == [
        *rest[:5],
        "... and 4 more lines of this",
        "a.fx.txt differs from what was compiled on cpu",
    ]
    assert found_first(rest) == rest  # the words of another check


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.py::test: too much\n\nrun it", "too much"),
        (
            "a.py::test has no snapshot yet: b.fx.txt does not exist",
            "has no snapshot yet: b.fx.txt",
        ),
        ("my tests/a.py:7: run.check()\na.py::test: too much", "too much"),
    ],
)
def test_the_name_of_the_test_is_not_said_again(text: str, message: str) -> None:
    assert PaintedFailure(text, "a.py::test").reprcrash.message.startswith(message)


@pytest.mark.parametrize("text", [TEXT, "worker 'gw0' crashed"])
def test_what_ends_with_a_command_is_painted(text: str) -> None:
    report = pytest.TestReport(
        nodeid="a.py::test",
        location=("a.py", 0, "test"),
        keywords={},
        outcome="failed",
        longrepr=text,
        when="call",
    )
    Painter().pytest_runtest_logreport(report)
    assert isinstance(report.longrepr, PaintedFailure) is (text == TEXT)
    assert str(report.longrepr) == report.longreprtext == text
