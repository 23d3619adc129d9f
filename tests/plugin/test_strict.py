"""Annotated code that is in no compiled region: a warning, and with --fxregion-strict an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

TEST = """\
import torch
from torch.fx.traceback import annotate

def dead(x):
    with annotate({"compile_with_inductor": 0}):
        unused = x * 2
    return x.sin()

def broken(x):
    with annotate({"compile_with_inductor": 0}):
        y = x * 2
        torch._dynamo.graph_break()
        z = y + 3
    return z.sin()

def whole(x):
    with annotate({"compile_with_inductor": {"inductor_region": "a"}}):
        y = x * 2
        with annotate({"compile_with_inductor": None}):
            y = y.cos()
    return y.sin()

def branches(flag, x):
    with annotate({"compile_with_inductor": 0}):
        return torch.cond(flag, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

def test_dead(fxregion):
    fxregion(dead, fxregion.randn(3))

def test_broken(fxregion):
    fxregion(broken, fxregion.randn(3))

def test_whole(fxregion):
    fxregion(whole, fxregion.randn(3))

def test_branches(fxregion):  # eager's cond runs code that torch generated
    with torch.no_grad():
        fxregion(branches, fxregion.tensor(True), fxregion.randn(3))
"""


@pytest.fixture
def suite(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write(
        {
            "pytest.ini": "[pytest]\nfilterwarnings = ignore::DeprecationWarning",
            "test_lost.py": TEST,
        }
    )
    return made


def test_a_block_that_came_to_nothing_is_a_warning_with_its_line(suite: Project) -> None:
    done = suite.run("--fxregion", "--fxregion-device=cpu")
    assert "4 passed" in done.lines[-1]
    for name, said in (
        ("test_dead", "test_lost.py:6 (nothing uses its results"),
        ("test_broken", "test_lost.py:11, test_lost.py:13 (the function was not compiled"),
    ):
        line = done.line("FxRegionWarning: ", f"test_lost.py::{name}: ")
        assert f": annotated, but in no compiled region: {said}" in line


def test_strict_makes_it_an_error(suite: Project) -> None:
    done = suite.run("--fxregion", "--fxregion-device=cpu", "--fxregion-strict")
    assert "2 failed, 2 passed" in done.lines[-1]
    done.line("annotated, but in no compiled region: test_lost.py:6 ")


def test_tests_of_another_device_than_the_runs_are_told_of(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        {
            "test_device.py": """
            import torch

            def test_left_behind(fxregion):
                fxregion(lambda x: x.sin(), torch.randn(3))

            def test_in_place(fxregion):
                fxregion(lambda x: x.to(fxregion.device).sin(), torch.randn(3))

            def test_made_there(fxregion):
                fxregion(lambda: torch.ones(3, device=fxregion.device).sin())

            def test_no_function(fxregion):
                fxregion(fxregion.randn(3))
            """
        }
    )
    done = project.run("--fxregion", "--fxregion-device=virtual")
    said = "nothing of what was compiled is on cuda:0, all of it is on cpu: make inputs with "
    assert [line for line in done.lines if said in line] == [
        line for line in done.lines if "FxRegionWarning: test_device.py::test_left_behind: " in line
    ]
    done.line(said)
    done.line(
        "test_no_function: fxregion takes a function or module, then its arguments; the first"
    )
    assert "3 passed" in done.lines[-1]
    strict = project.run("--fxregion", "--fxregion-device=virtual", "--fxregion-strict")
    assert said in strict.failure_of("test_left_behind")
