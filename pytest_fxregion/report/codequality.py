"""A run as GitLab's code quality report, which merge requests show beside the lines.

Comes in: a :class:`~pytest_fxregion.report.machine.MachineReport`.  Goes out: JSON.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from pytest_fxregion.report.github import failures, said
from pytest_fxregion.report.machine import MachineReport
from pytest_fxregion.report.painting import found_first

_SEVERITY = {"failed": "major", "error": "critical"}


def code_quality(report: MachineReport, prefix: str = "") -> str:
    """Return the text of the file: an entry for each failed test, none if all passed.

    ``prefix`` is the way from the repository's root to pytest's root folder, with a slash, or
    nothing.  A fingerprint stays the same while a test fails in the same way, so that what is new
    in a merge request can be told.
    """
    entries = []
    for entry, failure in failures(report):
        same = "\n".join([entry.nodeid, entry.outcome, *failure.text])
        found = said(replace(failure, text=tuple(found_first(failure.text))))
        entries.append(
            {
                "description": f"{entry.nodeid}: {' / '.join(found)}",
                "check_name": "fxregion",
                "fingerprint": hashlib.sha256(same.encode("utf-8", "replace")).hexdigest(),
                "severity": _SEVERITY[entry.outcome],
                "location": {
                    "path": prefix + failure.file,
                    "lines": {"begin": failure.line},
                },
            }
        )
    return json.dumps(entries, indent=2) + "\n"
