"""``merge``: artifacts folders of a suite's parts in, one artifacts folder out.

So runners that each ran a part are read as one run: one ``fxregion.json``, and beside it every
candidate that it lists.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.report.machine import (
    FILE,
    MachineReport,
    TestEntry,
    parse_report,
    resolve_inside,
    write_report,
)
from pytest_fxregion.snapshots.files import write_atomically
from pytest_fxregion.snapshots.names import SUFFIX

_EPILOG = "exit status: 0 merged; 2 nothing was written, and why is said."


@dataclass(frozen=True)
class Part:
    """The artifacts folder of one run."""

    folder: Path
    report: MachineReport


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "merge",
        help="make one artifacts folder of those that the parts of a suite have left",
        description="Make one artifacts folder of those that the parts of a suite have left.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "parts", nargs="+", metavar="PART", type=Path, help=f"an artifacts folder, or its {FILE}"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="FOLDER",
        help=f"the folder to write, or {FILE} in it",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Merge; returns the exit status.

    Raises:
        SnapshotError: the parts cannot be read or do not go together, or the folder that is to be
            written holds something else.

    """
    parts = [read_part(path) for path in arguments.parts]
    output = _folder(arguments.output)
    if any(part.folder.resolve() == output.resolve() for part in parts):
        raise SnapshotError(f"{output} is one of the parts; merge into a folder of its own")
    merged = merge([part.report for part in parts], [str(part.folder) for part in parts])
    files = _candidate_files(parts, merged)
    _check_output(output)
    try:
        for path, text in files.items():
            write_atomically(output / path, text)
        write_atomically(output / FILE, write_report(merged))
    except OSError as error:
        raise SnapshotError(f"cannot write into {output}: {error}") from None
    count = sum(len(entry.candidates) for entry in merged.tests)
    counted = ((len(merged.tests), "test"), (count, "candidate"))
    said = ", ".join(f"{n} {what}{'s' if n != 1 else ''}" for n, what in counted)
    print(f"{said} in {output / FILE}")
    return 0


def read_part(path: Path) -> Part:
    """Read what one run has left, given its folder or the file in it.

    Raises:
        SnapshotError: there is no report, or it cannot be read.

    """
    file = _folder(path) / FILE
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise SnapshotError(f"cannot read {file}: {what}") from None
    return Part(file.parent, parse_report(text, source=str(file)))


def merge(reports: Sequence[MachineReport], names: Sequence[str]) -> MachineReport:
    """Return the report of all parts; ``names`` are theirs, for errors.

    Raises:
        SnapshotError: they are of several torches or devices, a test ran in two of them, or two
            have values for one snapshot.

    """
    first = reports[0]
    for report, name in zip(reports, names, strict=True):
        if (report.torch, report.device) != (first.torch, first.device):
            raise SnapshotError(
                f"{names[0]} is of torch {first.torch} on {first.device}, {name} of torch "
                f"{report.torch} on {report.device}: merge the parts of one run"
            )
    found: dict[str, tuple[TestEntry, str]] = {}
    for report, name in zip(reports, names, strict=True):
        for entry in report.tests:
            other, where = found.get(entry.nodeid, (entry, name))
            if other is not entry and not entry.earlier and not other.earlier:
                raise SnapshotError(f"{entry.nodeid} ran in {where} and in {name}")
            # One that ran knows more than one that is listed for what an earlier run left.
            if entry.nodeid not in found or other.earlier:
                found[entry.nodeid] = (entry, name)
    owners: dict[str, str] = {}
    for entry, name in found.values():
        for candidate in entry.candidates:
            owner = owners.setdefault(candidate.snapshot, name)
            if owner != name:
                raise SnapshotError(f"{owner} and {name} have values for {candidate.snapshot}")
    tests = sorted((entry for entry, _ in found.values()), key=lambda entry: entry.nodeid)
    return replace(first, tests=tuple(tests))


def _candidate_files(parts: Iterable[Part], merged: MachineReport) -> Mapping[str, str]:
    """Return the texts of the candidates and of their whole diffs, by their path."""
    listed = {each.candidate for entry in merged.tests for each in entry.candidates}
    kept = {entry.nodeid: entry for entry in merged.tests}
    files: dict[str, str] = {}
    for part in parts:
        for entry in part.report.tests:
            if kept[entry.nodeid] is not entry:
                continue
            for path in (each.candidate for each in entry.candidates if each.candidate in listed):
                file = resolve_inside(part.folder, path)
                try:
                    files[path] = file.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise SnapshotError(f"cannot read the candidate {file}: {error}") from None
                diff = file.with_name(file.name.removesuffix(SUFFIX) + ".diff")
                if diff.is_file():
                    files[path.removesuffix(SUFFIX) + ".diff"] = diff.read_text("utf-8", "replace")
    return files


def _folder(path: Path) -> Path:
    return path.parent if path.name == FILE else path


def _check_output(folder: Path) -> None:
    """Raise if the folder is not one for artifacts: in a project's root are the real snapshots."""
    if not folder.exists() or (folder / FILE).exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise SnapshotError(
            f"{folder.resolve()} holds other things; merge into a folder of its own, as in "
            f"-o merged/{FILE}"
        )
