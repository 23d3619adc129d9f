"""Every code block of the documentation, run in order, a folder for each page."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import Block, blocks, commands, missing
from tests.plugin.pytest_process import SOURCE_TREE, clean_environment

DOCS = SOURCE_TREE / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_do_does_what_it_says(page: str, tmp_path: Path) -> None:
    printed: str | None = None
    for block in blocks((DOCS / page).read_text(encoding="utf-8")):
        if block.reason is not None:
            printed = None
        elif block.title is not None:
            file = tmp_path / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = run(
                f"{shlex.quote(sys.executable)} -c {shlex.quote(block.text)}", block, tmp_path
            )
        elif block.language == "sh":
            printed = "".join(run(command, block, tmp_path) for command in commands(block))
        elif block.language == "text":
            where = f"{page}:{block.line}"
            assert printed is not None, f"{where} follows no command: say where it is from"
            line = missing(block.text, printed)
            assert line is None, f"{where}: not printed: {line}\n\n{printed}"
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            yaml.safe_load(block.text)
        else:
            raise AssertionError(f"{page}:{block.line}: a block of {block.language or 'nothing'}")


def run(command: str, block: Block, folder: Path) -> str:
    """Run a command as the page's reader does; it has the exit status that the page says."""
    environment = clean_environment()
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = str(SOURCE_TREE)
    # The pages show a machine without a GPU.
    environment["PYTEST_ADDOPTS"] = "--fxregion-device=virtual -p no:cacheprovider -p no:randomly"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == block.exits, f"line {block.line}: {command}\n{done.stdout}"
    return done.stdout.replace(" --fxregion-device=virtual", "")
