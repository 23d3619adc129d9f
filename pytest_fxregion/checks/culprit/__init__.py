"""Which region is wrong: put pieces back to eager, take the wrong one apart, write a script of it.

search → (minimal, pieces) → shrink → trial → script → finding
"""

from __future__ import annotations

from pathlib import Path

from pytest_fxregion.checks.culprit.finding import Source
from pytest_fxregion.checks.culprit.search import IsWrong, find, script_files
from pytest_fxregion.checks.numerics import Tolerance
from pytest_fxregion.execution import Again
from pytest_fxregion.snapshots.names import encode_extra, encode_test

__all__ = ["IsWrong", "explain", "script_files", "script_name"]


def explain(
    again: Again,
    is_wrong: IsWrong,
    *,
    test: str,
    root: Path,
    scripts: Path | None,
    arch: str | None,
    tolerance: Tolerance | None,
) -> str:
    """Say which regions make the results of a call wrong.

    ``is_wrong`` judges the named values of a run; ``tolerance`` is what it judges by, if not by the
    rule.  ``scripts`` is the file of the first script,
    None for none; the last line is the command that runs it.  What goes wrong in the search is
    said, and raises nothing: the results are wrong all the same.
    """
    source = Source(test, root, scripts, arch)
    try:
        return find(again, is_wrong, source, tolerance).text(source)
    except Exception as error:  # the search compiles and runs whatever the user's function does
        return f"which region it is was not found: {type(error).__name__}: {error}"


def script_name(test: str, run: str | None) -> Path:
    """Return the path of a test's script below the artifacts folder; ``run`` is a run's name."""
    file, _, rest = test.partition("::")
    stem = encode_test(rest.replace("::", ".") or "script")
    extra = f"-{encode_extra(run)}" if run else ""
    return Path("scripts", *Path(file).with_suffix("").parts, f"{stem}{extra}.py")
