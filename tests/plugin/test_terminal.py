"""What a person sees on a terminal: steps that come and go, colours, regions, the next command."""

from __future__ import annotations

import os
import pty
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forks import forks
from tests.plugin.pytest_process import SOURCE_TREE, Finished, Project, clean_environment, once

TESTS = """\
    import pytest
    import torch
    from torch.fx.traceback import annotate

    def block(x):
        with annotate({"compile_with_inductor": 0}):
            return x.sin() + 1

    def test_recorded(fxregion):
        fxregion(block, fxregion.randn(4, requires_grad=True)).check()

    def test_wrong(fxregion):
        run = fxregion(block, fxregion.randn(4, requires_grad=True))
        run.check_memory(saved_at_most=1)
    """
HELD = "# fxregion snapshot 1 | torch 0 | cpu\n\n# ==== joint ====\nas it was\n"


# Others take longer to load than a run.
PLUGINS = ("-p", "xdist.plugin", "-p", "syrupy", "-p", "pytest_fxregion.plugin")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "120", "TERM": "xterm"}


def on_a_terminal(project: Project, *arguments: str, **environment: str) -> Finished:
    """Run pytest as if typed into a terminal of 120 columns; the text is all that was written."""
    ours, its = pty.openpty()
    with ThreadPoolExecutor() as reader:
        written = reader.submit(all_of, ours)
        try:
            fork = forks().start(
                its,
                ["pytest", "-p", "no:cacheprovider", *PLUGINS, *arguments],
                project.folder,
                {**clean_environment(), "PYTHONPATH": str(SOURCE_TREE), **ALONE, **environment},
            )
            status = fork.wait()
        finally:
            os.close(its)  # after which nobody writes any more
        text = written.result().decode().replace("\r\n", "\n")
    os.close(ours)
    return Finished(status, text)


def all_of(terminal: int) -> bytes:
    """Read what is written to a terminal until nobody has it open."""
    written = bytearray()
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says so
            return bytes(written)
        if not part:
            return bytes(written)
        written += part


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    def run_it() -> Finished:
        project = Project(tmp_path_factory.mktemp("terminal"))
        project.write(
            {
                "tests/test_seen.py": TESTS,
                "snapshots/test_seen/test_recorded.fx.txt": HELD,
            }
        )
        options = ("--fxregion", "--fxregion-device=virtual", "-v")
        # A step that compiles is seen only where no earlier run has left what it compiled.
        unused = str(project.folder / "inductor")
        return on_a_terminal(project, *options, TORCHINDUCTOR_CACHE_DIR=unused)

    shared = tmp_path_factory.getbasetemp()
    return once(shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared, "seen", run_it)


def seen(text: str) -> str:
    """What is left on the screen: backspaces taken into account, colours not."""
    lines = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", text).split("\n"):
        column = 0
        cells: list[str] = []
        for character in line:
            if character == "\b":
                column = max(0, column - 1)
            elif character == "\r":
                column = 0
            else:
                cells[column : column + 1] = [character]
                column += 1
        lines.append("".join(cells).rstrip())
    return "\n".join(lines)


def test_steps_are_shown_and_gone_afterwards(run: Finished) -> None:
    for step in ("running eagerly", "tracing and compiling", "compiling inductor_region_0"):
        assert f"  fxregion: {step}" in run.text
    left = seen(run.text)
    assert "  fxregion: " not in left
    assert re.search(r"^tests/test_seen.py::test_recorded FAILED +\[ 50%\]$", left, re.MULTILINE)


def test_regions_are_listed(run: Finished) -> None:
    lines = seen(run.text).splitlines()
    first = lines.index("tests/test_seen.py::test_recorded")
    assert lines[first + 1 : first + 4] == [
        "  forward   inductor_region_0  region default  2 nodes  primals_1 → add"
        "  tests/test_seen.py:7",
        "  backward  inductor_region_0  region default  2 nodes  primals_1, tangents_1 → mul"
        "  tests/test_seen.py:7",
        "",
    ]


def test_the_diff_has_colours(run: Finished) -> None:
    assert "\x1b[31m-as it was\x1b[0m" in run.text
    assert "\x1b[32m+class GraphModule(torch.nn.Module):\x1b[0m" in run.text


@pytest.mark.parametrize(
    ("test", "last"),
    [
        (
            "test_recorded",
            "pytest tests/test_seen.py::test_recorded --fxregion --fxregion-device=virtual "
            "--snapshot-update",
        ),
        (
            "test_wrong",
            "pytest tests/test_seen.py::test_wrong --fxregion --fxregion-device=virtual",
        ),
    ],
)
def test_a_failure_ends_with_the_command_to_run_next(run: Finished, test: str, last: str) -> None:
    failure = Finished(run.code, seen(run.text)).failure_of(test)
    assert failure.splitlines()[-1] == last


def test_elsewhere_there_are_neither_steps_nor_colours(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        {
            "tests/test_step.py": """\
                from pytest_fxregion.report.transient import transient_line

                def test_step(request):
                    assert transient_line(request.config) is None
                """,
        }
    )
    run = project.run(*PLUGINS, "--fxregion", "--fxregion-device=cpu", "-v", env=ALONE)
    assert run.code == 0, run.text
    assert "\x1b" not in run.text
    assert "\b" not in run.text
    for options in (["-q"], ["-s"], ["-n1"]):
        assert on_a_terminal(project, "--fxregion", "--fxregion-device=cpu", *options).code == 0
