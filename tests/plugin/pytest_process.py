"""A project in a folder of its own, and pytest run in it, in another process."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import dedent

from tests.forks import SHARED, forks

SOURCE_TREE = Path(__file__).parents[2]

# Tests in the order of the files, unless `arguments` say otherwise; nothing is left in the folder.
# Hypothesis's plugin is not of interest, and takes seconds to load.
_ALONE = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest")
# A heading of what follows the failures; output that was captured belongs to its failure.
_SUMMARY = re.compile(r"-{10,} (?!Captured )")
# What would tell a run something of the run that it is started from.
_INHERITED = ("PYTEST_", "CI", "COLUMNS", "PYTHONHASHSEED", SHARED)


def clean_environment() -> dict[str, str]:
    """Return the environment without what would tell a run of the one that it is started from."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_INHERITED)}


@dataclass(frozen=True)
class Finished:
    """A run that is over."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """What was printed, line by line."""
        return self.text.splitlines()

    def line(self, *parts: str) -> str:
        """Return the first line that holds all the parts."""
        for line in self.lines:
            if all(part in line for part in parts):
                return line
        raise AssertionError(f"no line with {parts} in:\n{self.text}")

    def failure_of(self, test: str) -> str:
        """Return the text of one test's failure or error."""
        title = next(
            number
            for number, line in enumerate(self.lines)
            if line.startswith("_") and line.rstrip(" _").endswith(f" {test}")
        )
        body = []
        for line in self.lines[title + 1 :]:
            if line.startswith(("____", "====")) or _SUMMARY.match(line):
                break
            body.append(line)
        return "\n".join(body)


@dataclass(frozen=True)
class Project:
    """A folder with tests."""

    folder: Path

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, with their source dedented."""
        for name, source in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(source))

    def run(
        self,
        *arguments: str,
        module: str = "pytest",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        anew: bool = False,
    ) -> Finished:
        """Run pytest, or another module; ``env`` is added to a clean environment.

        It runs in a fork of a process that has imported torch already; with ``anew``, in one that
        is started for it.
        """
        given = dict(env or {})
        path = [given.pop("PYTHONPATH", ""), str(SOURCE_TREE)]
        environment = clean_environment()
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        environment |= given
        words = ["-m", module, *(_ALONE if module == "pytest" else ()), *arguments]
        if not anew:
            command = words[1:] if module == "pytest" else ["python", *words]
            return Finished(*forks().run(command, cwd or self.folder, environment))
        done = subprocess.run(
            [sys.executable, *words],
            cwd=cwd or self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Finished(done.returncode, done.stdout)

    def snapshots(self) -> dict[str, bytes]:
        """Return every snapshot file by its path."""
        root = self.folder / "snapshots"
        files = sorted(path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_bytes() for path in files}


def once(folder: Path, name: str, run: Callable[[], Finished]) -> Finished:
    """Return what ``run`` gave, which only the first of xdist's workers to come here calls.

    ``folder`` is one that all of them share.
    """
    kept = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(asdict(run())))
    return Finished(**json.loads(kept.read_text()))
