"""Annotations and summaries as GitHub Actions reads them."""

from __future__ import annotations

from dataclasses import replace

from pytest_fxregion.report.github import MOST_BYTES, error_annotations, step_summary
from pytest_fxregion.report.machine import Failure, MachineReport, TestEntry
from tests.unit.report.reports import FIGURES, FOUND, PASSED


def test_each_failure_of_this_run_is_an_annotation_on_its_line() -> None:
    assert list(error_annotations(FOUND)) == [
        "::error file=tests/test_a.py,line=18,"
        "title=fxregion%3A tests/test_a.py%3A%3Atest_a[x%2Cy%3Az]::"
        "`add` in joint: 100%25 left region 0%0A"
        "snapshots/a.fx.txt differs from what was compiled on cpu%0A"
        "pytest tests/test_a.py::test_a --fxregion --snapshot-update",
        "::error file=tests/test_c.py,line=1,title=fxregion%3A tests/test_c.py%3A%3Atest_c::?",
    ]
    assert list(error_annotations(PASSED)) == []


def test_files_are_named_from_the_repository() -> None:
    first = next(error_annotations(FOUND, "python/"))
    assert first.startswith("::error file=python/tests/test_a.py,line=18,")


def test_the_summary_has_what_failed_then_a_row_for_each_run() -> None:
    assert (
        step_summary(FOUND)
        == """\
### fxregion on virtual h100 (no GPU), torch 2.13.0

1 error, 2 failed, 1 passed, 1 xfailed

<details open><summary><code>tests/test_a.py::test_a[x,y:z]</code> failed</summary>

```text
snapshots/a.fx.txt differs from what was compiled on cpu:
`add` in joint: 100% left region 0
pytest tests/test_a.py::test_a --fxregion --snapshot-update
```

</details>

<details open><summary><code>tests/test_c.py::test_c</code> error</summary>

```text
?
```

</details>

| test | regions fw/bw | nodes | saved | grad acc | error/allowed | time |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| tests/test_a.py::test_a[x,y:z] | 2/1 | 30 | 2.0 KiB | 3 | 0.12 | 0.3 s |
| tests/test_b.py::test_b | 2/1 | 30 | 2.0 KiB | 3 | 0.12 | 0.3 s |
"""
    )


def test_what_is_said_of_snapshots_stands_before_the_table() -> None:
    text = step_summary(FOUND, ["unused (its test is gone): snapshots/a.fx.txt"])
    block = "\n```text\nunused (its test is gone): snapshots/a.fx.txt\n```\n\n| test |"
    assert block in text


def test_what_a_test_is_called_and_says_cannot_break_the_page() -> None:
    failure = Failure("a.py", 1, ("```", "</details>"))
    odd = TestEntry("a.py::test[<b>|]", "failed", False, (FIGURES,), (), failure)
    text = step_summary(MachineReport("", "", (odd,)))
    assert "<code>a.py::test[&lt;b&gt;|]</code>" in text
    assert "\n````text\n```\n</details>\n````\n" in text
    assert "| a.py::test[&lt;b&gt;\\|] |" in text


def test_a_summary_is_no_longer_than_github_takes() -> None:
    failure = Failure("a.py", 1, tuple("x" * 1000 for _ in range(60)))
    one = TestEntry("a.py::test", "failed", False, (FIGURES,), (), failure)
    many = tuple(replace(one, nodeid=f"a.py::test_{k}") for k in range(40))
    text = step_summary(MachineReport("", "", many))
    assert MOST_BYTES * 0.9 < len(text.encode()) < MOST_BYTES + 100
    assert text.endswith("The rest is too long for a summary; all of it is in `fxregion.json`.\n")


def test_rows_beyond_what_one_can_read_are_counted() -> None:
    one = TestEntry("a.py::test", "passed", False, (FIGURES,))
    text = step_summary(MachineReport("", "", tuple(replace(one) for _ in range(510))))
    assert text.count("| a.py::test |") == 500
    assert text.endswith("\n\nand 10 more rows\n")
