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
from tests.forks import forks
from tests.plugin.pytest_process import SOURCE_TREE, clean_environment

DOCS = SOURCE_TREE / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def environment() -> dict[str, str]:
    """The environment of a page's commands, of which none warns of anything that is not torch's."""
    there = clean_environment()
    there["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), there["PATH"]])
    there["PYTHONPATH"] = str(SOURCE_TREE)
    # The pages show a machine without a GPU.
    options = "--fxregion-device=virtual -p no:cacheprovider -p no:randomly -W error"
    options += " -p no:hypothesispytest"  # seconds to load
    # Torch 2.11 does so where a softmax is in a region.
    options += " -W ignore::UserWarning:torch._inductor.lowering"
    there["PYTEST_ADDOPTS"] = options
    return there


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_do_does_what_it_says(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    printed: str | None = None

    def run(command: str, block: Block) -> str:
        """Run a command; it has the exit status that the page says."""
        words = shlex.split(command)
        if words[0] == "pytest" or words[:2] in (["python", "-m"], ["python", "-c"]):
            code, text = forks().run(words, folder, environment())
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                check=False,
            )
            code, text = done.returncode, done.stdout
        assert code == block.exits, f"line {block.line}: {command}\n{text}"
        return text.replace(" --fxregion-device=virtual", "")

    for block in blocks((DOCS / page).read_text(encoding="utf-8")):
        if block.reason is not None:
            printed = None
        elif block.title is not None:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = run(f"python -c {shlex.quote(block.text)}", block)
        elif block.language == "sh":
            printed = "".join(run(command, block) for command in commands(block))
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
