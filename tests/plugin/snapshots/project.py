"""A small project whose tests compare documents, run with the plugin as a user runs it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.forks import forks
from tests.plugin.pytest_process import clean_environment

REPOSITORY = Path(__file__).parents[3]

SETTINGS = {
    "PYTHONPATH": str(REPOSITORY),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "COLUMNS": "160",
}

VALUES = """\
import os
from pytest_fxregion.snapshots.document import Document, Section

VALUE = os.environ.get("VALUE", "1")

def doc(text):
    return Document("torch 0 | test", (Section("text", f"{text} {VALUE}"),))
"""


@dataclass
class Run:
    """What a run of pytest printed, and its exit status."""

    status: int
    output: str


def obey_permissions() -> None:
    """Take away what lets root write to read-only folders; in effect after ``exec``."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override)


def obey_as_in_a_terminal() -> None:
    """Run in the child before ``exec``: obey permissions, and SIGINT as background jobs do not."""
    obey_permissions()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _words(args: tuple[str, ...], xdist: bool) -> list[str]:
    # Only the plugins that matter here: others (Hypothesis) take longer to load than a run.
    plugins = ["-p", "xdist.plugin", "-p", "syrupy", "-p", "pytest_fxregion.plugin"]
    options = ["--fxregion", "--fxregion-device=cpu", *args]
    # A fork has imported our plugin already, which pytest 8 would rewrite and says so.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return ["pytest", *plugins, *options, *(["-n2"] if xdist else [])]


class Project:
    """A folder with tests and snapshots."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("pytest.ini", "[pytest]\npythonpath = .\nmarkers = slow: takes long\n")
        self.write("values.py", VALUES)

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")

    def write_snapshot(self, path: str, *text: str) -> None:
        """Write a snapshot as a run with the values ``text`` would: ``"one 1"``."""
        body = "\n".join(text)
        head = "# fxregion snapshot 1 | torch 0 | test\n\n# ==== text ====\n"
        self.write(f"snapshots/{path}.fx.txt", f"{head}{body}\n")

    def files(self) -> dict[str, str]:
        """Return the last line of each file in the snapshot folder, by its path without suffix."""
        found = sorted(path for path in self.snapshots.rglob("*") if path.is_file())
        return {
            path.relative_to(self.snapshots).as_posix().removesuffix(".fx.txt"): path.read_bytes()
            .decode("utf-8", "replace")
            .rstrip("\n")
            .rpartition("\n")[2]
            for path in found
        }

    def bytes(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.snapshots).as_posix(): path.read_bytes()
            for path in self.snapshots.rglob("*")
            if path.is_file()
        }

    def start(self, *args: str, xdist: bool = False, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *_words(args, xdist)],
            cwd=self.root,
            env={**clean_environment(), **SETTINGS, **environment},
            preexec_fn=obey_as_in_a_terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )

    def run(self, *args: str, xdist: bool = False, **environment: str) -> Run:
        there = {**clean_environment(), **SETTINGS, **environment}
        run = Run(*forks().run(_words(args, xdist), self.root, there))
        assert "INTERNALERROR" not in run.output, run.output
        return run

    def update(self, *args: str, xdist: bool = False, **environment: str) -> Run:
        return self.run("--snapshot-update", *args, xdist=xdist, **environment)
