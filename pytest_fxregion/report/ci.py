"""What a run leaves for the CI system that it runs in.

Comes in: what the run found, as for ``fxregion.json``, and the environment.  Goes out: GitHub's
annotations and summary where its variables are set, GitLab's file where one is named.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_fxregion.report import candidates
from pytest_fxregion.report.codequality import code_quality
from pytest_fxregion.report.github import error_annotations, step_summary
from pytest_fxregion.snapshots import session as snapshots
from pytest_fxregion.snapshots.files import write_atomically

_PROBLEMS = pytest.StashKey[list[str]]()


def finish(config: pytest.Config, code_quality_file: Path | None) -> None:
    """Write the files: call once all reports are in, on the process that gathers them.

    After the snapshots' own end, which says what is unused.
    """
    report = candidates.this_run(config)
    if report is None or config.option.collectonly:
        return
    problems = config.stash.setdefault(_PROBLEMS, [])
    if code_quality_file is not None:
        text = code_quality(report, _way_to(config.rootpath, "CI_PROJECT_DIR"))
        try:
            write_atomically(code_quality_file, text)
        except OSError as error:
            problems.append(f"could not write {code_quality_file}: {error}")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and report.tests:
        try:
            with Path(summary).open("a", encoding="utf-8", errors="replace") as file:
                file.write(step_summary(report, snapshots.summary_lines(config)))
        except OSError as error:
            problems.append(f"could not write the job's summary: {error}")


def summary_lines(config: pytest.Config) -> list[str]:
    """Return what the terminal summary should say about the files; nothing if all is well."""
    return config.stash.get(_PROBLEMS, [])


def annotation_lines(config: pytest.Config) -> list[str]:
    """Return the lines that GitHub reads from the job's log; none elsewhere."""
    report = candidates.this_run(config)
    if report is None or os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    return list(error_annotations(report, _way_to(config.rootpath, "GITHUB_WORKSPACE")))


def _way_to(rootdir: Path, variable: str) -> str:
    """Return the way from the repository's root, which a variable names, to pytest's."""
    repository = os.environ.get(variable)
    if not repository:
        return ""
    top = Path(repository).resolve()
    if not rootdir.resolve().is_relative_to(top):
        return ""
    way = rootdir.resolve().relative_to(top).as_posix()
    return "" if way == "." else f"{way}/"
