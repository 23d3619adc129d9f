"""``--fxregion-report``: one page of a run, the same bytes however many processes run its tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.pytest_process import Finished, Project, once

ON_CPU = ("--fxregion", "--fxregion-device=cpu")

TESTS = {
    "conftest.py": """
        import sys
        import pytest

        @pytest.fixture(autouse=True)
        def quick_compiles():
            import torch._inductor.config as config
            config.disable_cpp_codegen = True  # a C++ compiler is slow to start

        def pytest_unconfigure():
            page = {name.rpartition(".")[2] for name in sys.modules if ".report.page." in name}
            print("page modules:", *sorted(page & {"collect", "render"}))
    """,
    "tests/test_block.py": """
        import pytest
        import torch
        from torch.fx.traceback import annotate


        def block(x, w):
            h = torch.sin(x)
            with annotate({"compile_with_inductor": {"inductor_region": "middle"}}):
                h = h * w + 1
            return torch.sin(h)


        def inputs(fxregion):
            return [fxregion.randn(4, requires_grad=True) for _ in range(2)]


        def test_changed(fxregion):
            fxregion(block, *inputs(fxregion)).check()


        def test_numbers(fxregion):
            fxregion(block, *inputs(fxregion)).check_numerics()


        def test_broken(fxregion):
            assert fxregion is None


        @pytest.mark.fxregion(gpu=True)
        def test_gpu(fxregion):
            pass


        def test_without_the_fixture():
            pass
    """,
    "tests/test_not_importable.py": "import no_such_module\n",
    "snapshots/test_block/test_changed@cpu.fx.txt": """
        # fxregion snapshot 1 | torch 2.0.0 | cpu

        # ==== joint ====
        class GraphModule(torch.nn.Module):
            def forward(self, primals_1: "f32[4][1]cpu", primals_2: "f32[4][1]cpu"):
                sin: "f32[4][1]cpu" = torch.ops.aten.sin.default(primals_1)
                return (sin,)
    """,
}

BLOCK = "tests/test_block.py::test_"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    made = shared / "report"
    made.mkdir(exist_ok=True)
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Callable[..., Finished]:
    project = Project(folder / "project")

    def run(name: str, *arguments: str, anew: bool = False) -> Finished:
        def fresh() -> Finished:
            project.write({**TESTS, **{k: v.lstrip("\n") for k, v in TESTS.items()}})
            (project.folder / "pytest.ini").write_text("[pytest]\n")
            options = ("--continue-on-collection-errors", *ON_CPU, *arguments)
            return project.run(*options, anew=anew)

        return once(folder, name, fresh)

    return run


@pytest.fixture(scope="module")
def serial(run: Callable[..., Finished]) -> Finished:
    return run("serial", "--fxregion-report=out/serial.html")


def page(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the index of a page, and its tests by node id."""
    text = (folder / "project/out" / f"{name}.html").read_text(encoding="utf-8")
    data = [
        json.loads(found)
        for found in re.findall(r'<script type="application/json" id="[^"]*">(.*?)</script>', text)
    ]
    return data[0], {test["nodeid"]: test for test in data[1:]}


def test_the_summary_says_where_the_page_is(serial: Finished) -> None:
    assert serial.line("report: ") == "report: out/serial.html"


def test_every_test_of_the_fixture_is_in_the_page_what_failed_first(
    serial: Finished, folder: Path
) -> None:
    index, _ = page(folder, "serial")
    assert [(test["nodeid"], test["outcome"]) for test in index["tests"]] == [
        (f"{BLOCK}broken", "failed"),
        (f"{BLOCK}changed", "failed"),
        ("tests/test_not_importable.py", "error"),
        (f"{BLOCK}gpu", "skipped"),
        (f"{BLOCK}numbers", "passed"),
    ]


def test_a_changed_snapshot_is_shown_in_words_and_beside_its_text(
    serial: Finished, folder: Path
) -> None:
    _, tests = page(folder, "serial")
    found = tests[f"{BLOCK}changed"]
    assert found["difference"]["path"] == "snapshots/test_block/test_changed@cpu.fx.txt"
    assert found["difference"]["summary"]
    assert found["command"]["command"].startswith(f"pytest {BLOCK}changed --fxregion")
    assert "fxregion-report" not in found["command"]["command"]


def test_a_runs_graphs_numbers_and_kernels_are_in_the_page(serial: Finished, folder: Path) -> None:
    _, tests = page(folder, "serial")
    (run,) = tests[f"{BLOCK}numbers"]["runs"]
    (graph,) = run["graphs"]
    stages = {stage["name"]: stage for stage in graph["stages"]}
    assert list(stages) == ["joint", "forward", "backward"]
    (band,) = stages["forward"]["bands"]
    assert (band["piece"], band["region"]) == ("inductor_region_0", "'middle'")
    assert [source.partition(":")[0] for source in band["sources"]] == ["tests/test_block.py"]
    assert {entry["name"] for entry in stages["forward"]["saved"]} == {
        entry["name"] for entry in stages["backward"]["saved"]
    }
    assert [number["name"] for number in run["numbers"]] == [
        "output",
        "gradient of x",
        "gradient of w",
    ]
    assert all(sum(number["histogram"]["regional"]) == 4 for number in run["numbers"])
    assert "seconds" not in run["figures"]


def test_a_test_that_fails_otherwise_has_its_text(serial: Finished, folder: Path) -> None:
    _, tests = page(folder, "serial")
    text = tests[f"{BLOCK}broken"]["text"]
    assert "assert fxregion is None" in text
    assert " at 0x" not in text
    assert "no_such_module" in tests["tests/test_not_importable.py"]["text"]


def test_workers_make_the_same_page_and_leave_junits_report_alone(
    serial: Finished, run: Callable[..., Finished], folder: Path
) -> None:
    spread = run("spread", "-n2", "--fxregion-report=out/spread.html", "--junit-xml=out/junit.xml")
    assert spread.line("report: ") == "report: out/spread.html"
    pages = [
        (folder / "project/out" / f"{name}.html").read_bytes() for name in ("serial", "spread")
    ]
    assert pages[0] == pages[1]
    assert "fxregion-page" not in (folder / "project/out/junit.xml").read_text()


def test_without_the_option_nothing_of_the_page_is_imported(run: Callable[..., Finished]) -> None:
    assert run("without", "-k", "gpu", anew=True).line("page modules:") == "page modules:"


def test_a_page_that_cannot_be_written_is_said(run: Callable[..., Finished], folder: Path) -> None:
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project/in-the-way").write_text("")
    done = run("refused", "-k", "gpu", "--fxregion-report=in-the-way/page.html")
    assert "could not write the report in-the-way/page.html: " in done.line("could not write")
