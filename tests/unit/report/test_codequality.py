"""Failures as GitLab reads them: https://docs.gitlab.com/ci/testing/code_quality/."""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_fxregion.report.codequality import code_quality
from tests.unit.report.reports import FOUND, PASSED


def test_each_failure_of_this_run_is_an_entry() -> None:
    changed, broken = json.loads(code_quality(FOUND))
    assert len(changed.pop("fingerprint")) == 64
    assert changed == {
        "description": "tests/test_a.py::test_a[x,y:z]: `add` in joint: 100% left region 0 / "
        "snapshots/a.fx.txt differs from what was compiled on cpu / "
        "pytest tests/test_a.py::test_a --fxregion --snapshot-update",
        "check_name": "fxregion",
        "severity": "major",
        "location": {"path": "tests/test_a.py", "lines": {"begin": 18}},
    }
    assert (broken["severity"], broken["location"]["path"]) == ("critical", "tests/test_c.py")


def test_a_run_without_failures_is_an_empty_list() -> None:
    assert code_quality(PASSED) == "[]\n"


def test_files_are_named_from_the_repository() -> None:
    first = json.loads(code_quality(FOUND, "python/"))[0]
    assert first["location"]["path"] == "python/tests/test_a.py"


def test_a_fingerprint_is_of_what_is_wrong_and_not_of_where_it_stands() -> None:
    def fingerprints(**changes: object) -> list[str]:
        first = FOUND.tests[0]
        assert first.failure is not None
        moved = replace(first, failure=replace(first.failure, **changes))  # type: ignore[arg-type]
        report = replace(FOUND, tests=(moved, *FOUND.tests[1:]))
        return [entry["fingerprint"] for entry in json.loads(code_quality(report))]

    assert fingerprints(line=99, command=None) == fingerprints()
    assert fingerprints(text=("something else",))[0] != fingerprints()[0]
    assert len(set(fingerprints())) == 2
