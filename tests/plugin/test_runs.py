"""Runs with ``--fxregion``: the summary, failures and the command that accepts, the same bytes.

A run costs seconds (it imports torch), so each of the few runs below serves many tests.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.plugin.pytest_process import Finished, Project, once

ON_CPU = ("--fxregion", "--fxregion-device=cpu")

CONFTEST = """
import os
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    if "REVERSED" in os.environ:
        items.reverse()

@pytest.fixture(autouse=True)
def quick_compiles():
    import torch._inductor.config as config
    config.disable_cpp_codegen = True  # a C++ compiler is slow to start
    if "FAULT" not in os.environ:
        return
    import torch
    def wrong(graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.erf.default:
                node.target = torch.ops.aten.tanh.default
    config.post_grad_custom_post_pass = wrong
    config.force_disable_caches = True
"""

WAVES = '''
"""Functions with and without a fault, by what is in the environment."""

import os

import pytest
import torch
from torch.fx.traceback import annotate

FAULT = os.environ.get("FAULT", "")


def waves(x, w):
    with annotate({"compile_with_inductor": 0}):
        h = x * w + 1
    return h.sin() + h.cos()


def changing(x):
    if FAULT:
        return x.sin() * x.tanh()
    return x.sin() * x.cos()


def wrong_when_compiled(x):
    if FAULT and torch.compiler.is_compiling():
        x = x * 1.01
    with annotate({"compile_with_inductor": 0}):
        h = x.sin()
    return h * 2


def wrongly_lowered(x):
    with annotate({"compile_with_inductor": 0}):
        h = torch.erf(x * 2).tanh()
    return h * 2


def misspelt(x):
    configs = {"max_autotun" if FAULT else "max_autotune": False}
    with annotate({"compile_with_inductor": {"inductor_configs": configs}}):
        return x.sin()


def inputs(fxregion):
    return [fxregion.randn(4, requires_grad=True) for _ in range(2)]


def test_waves(fxregion):
    run = fxregion(waves, *inputs(fxregion))
    run.check()
    assert len(run.forward.regions) == 1


def test_several_runs(fxregion):
    x = fxregion.randn(4, requires_grad=True)
    for name in ("first", "second"):
        fxregion(lambda x: x.sin() * x.cos(), x, name=name).check()


@pytest.mark.parametrize("size", [2, 3])
def test_parametrized(fxregion, size):
    fxregion(changing, fxregion.randn(size)).check()


def test_syrupy_style(fxregion, fxregion_snapshot):
    run = fxregion(waves, *inputs(fxregion))
    assert run.forward == fxregion_snapshot
    assert run == fxregion_snapshot(name="whole")


def test_numbers(fxregion):
    fxregion(wrong_when_compiled, fxregion.randn(4, requires_grad=True)).check()


def test_kernel(fxregion):
    run = fxregion(wrongly_lowered, fxregion.randn(4))
    run.check_numerics()


def test_sums(fxregion):
    run = fxregion(waves, *inputs(fxregion), name="sums")
    if FAULT:
        for node in run.joint.graph.graph.nodes:
            node.meta.pop("is_gradient_acc", None)
    run.check()


def test_changed(fxregion):
    fxregion(changing, fxregion.randn(4, requires_grad=True)).check()


def test_graph_break(fxregion):
    def broken(x):
        h = x.sin()
        torch._dynamo.graph_break()
        return h.cos()

    run = fxregion(broken, fxregion.randn(4))
    run.check()
    if FAULT:
        run.forward


def test_annotation(fxregion):
    fxregion(misspelt, fxregion.randn(4)).check()


@pytest.mark.fxregion(gpu=True)
@pytest.mark.parametrize("n", [1, 2])
def test_needs_a_gpu(fxregion, n):
    raise AssertionError
'''

MARKERS = """
import pytest


@pytest.mark.fxregion(devise="cpu")
def test_unknown_setting(fxregion):
    raise AssertionError


@pytest.mark.fxregion("cpu")
def test_positional(fxregion):
    raise AssertionError


@pytest.mark.fxregion(device="gpu")
def test_unknown_device(fxregion):
    raise AssertionError


@pytest.mark.fxregion(tolerance=1e-3)
def test_wrong_tolerance(fxregion):
    raise AssertionError


@pytest.mark.fxregion(device="virtual")
def test_device_that_is_not_loaded(fxregion):
    raise AssertionError


@pytest.mark.fxregion(device="cuda")
def test_device_that_is_not_there(fxregion):
    raise AssertionError


@pytest.mark.fxregion(tolerance=(0.5, 0.5), dynamic=True)
class TestSettings:
    @pytest.mark.fxregion(device="cpu")
    def test_settings_of_class_and_method_join(self, fxregion):
        import torch

        def function(x):
            return x * (1.1 if torch.compiler.is_compiling() else 1.0)

        run = fxregion(function, fxregion.randn(6))
        run.check_numerics()
        assert "s" in run.inference.text.split('"')[1]  # a size that is a symbol
        with pytest.raises(AssertionError):
            run.check_numerics(rtol=1e-3)
        with pytest.raises(AssertionError):
            run.check_numerics(exact=True)
"""


def made(folder: Path) -> Project:
    project = Project(folder)
    project.write(
        {
            "pytest.ini": "[pytest]\n",
            "conftest.py": CONFTEST,
            "tests/test_waves.py": WAVES,
            "markers/test_markers.py": MARKERS,
        }
    )
    return project


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all of xdist's workers share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "runs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def project(shared: Path) -> Project:
    """The project of the runs below; files in it are written by the first of them."""
    return Project(shared / "project")


@pytest.fixture(scope="module")
def recording(shared: Path, project: Project) -> Finished:
    """The first run: it writes the snapshots."""

    def run() -> Finished:
        made(project.folder)
        return project.run(*ON_CPU, "tests", "--snapshot-update", "-ra")

    return once(shared, "recording", run)


@pytest.fixture(scope="module")
def failing(shared: Path, project: Project, recording: Finished) -> Finished:
    """A later run, of faulty functions and wrong markers, that shows the graphs."""
    assert recording.code == 0, recording.text

    def run() -> Finished:
        before = project.snapshots()
        done = project.run(*ON_CPU, "--fxregion-show", "-ra", env={"FAULT": "1"})
        assert project.snapshots() == before
        return done

    return once(shared, "failing", run)


def rows(done: Finished) -> dict[str, list[str]]:
    """Return the columns of the summary's rows by test."""
    start = next(i for i, line in enumerate(done.lines) if "-- fxregion on " in line)
    header = done.lines[start + 1]
    assert header.split("  ")[0] == "test"
    found = {}
    for line in done.lines[start + 2 :]:
        if "::" not in line or line.startswith(("FAILED", "SKIPPED", "ERROR")):
            break
        name, *columns = [part for part in line.split("  ") if part]
        found[name.strip()] = [column.strip() for column in columns]
    return found


def test_recording_passes_and_writes_a_file_a_snapshot(
    project: Project, recording: Finished
) -> None:
    assert recording.code == 0, recording.text
    assert list(project.snapshots()) == [
        f"test_waves/{name}@cpu.fx.txt"
        for name in (
            "test_annotation",
            "test_changed",
            "test_graph_break",
            "test_numbers",
            "test_parametrized[2]",
            "test_parametrized[3]",
            "test_several_runs-first",
            "test_several_runs-second",
            "test_sums-sums",
            "test_syrupy_style-whole",
            "test_syrupy_style",
            "test_waves",
        )
    ]


def test_a_row_of_the_summary_for_each_run(recording: Finished) -> None:
    found = rows(recording)
    assert [name.partition("::")[2] for name in found] == [
        "test_annotation",
        "test_changed",
        "test_graph_break",
        "test_kernel",
        "test_numbers",
        "test_parametrized[2]",
        "test_parametrized[3]",
        "test_several_runs (first)",
        "test_several_runs (second)",
        "test_sums (sums)",
        "test_syrupy_style",
        "test_waves",
    ]
    regions, nodes, saved, sums, error, seconds = found["tests/test_waves.py::test_waves"]
    assert (regions, sums) == ("1/1", "1")
    assert int(nodes) > 8
    assert saved.endswith(" B")
    assert 0 < float(error) <= 1
    assert seconds.endswith(" s")
    assert found["tests/test_waves.py::test_graph_break"][0] == "0/0 in 2 graphs"
    assert found["tests/test_waves.py::test_syrupy_style"][4] == "not checked"


def test_tests_for_a_gpu_are_counted_as_not_run(recording: Finished) -> None:
    assert "2 tests not run for want of a GPU" in recording.lines
    assert "needs a GPU: " in recording.line("SKIPPED", "test_waves.py")


def test_workers_order_and_directory_give_the_same_bytes(
    project: Project, recording: Finished, tmp_path: Path
) -> None:
    assert recording.code == 0
    other, elsewhere = made(tmp_path / "other"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = other.run(
        *ON_CPU,
        "--snapshot-update",
        "-n2",
        f"--rootdir={other.folder}",
        "-c",
        str(other.folder / "pytest.ini"),
        str(other.folder / "tests"),
        cwd=elsewhere,
        env={"REVERSED": "1"},
    )
    assert done.code == 0, done.text
    assert other.snapshots() == project.snapshots()
    assert {name.rpartition("::")[2] for name in rows(done)} == {
        name.rpartition("::")[2] for name in rows(recording)
    }
    assert "2 tests not run for want of a GPU" in done.lines


def test_another_hash_seed_gives_the_same_bytes(
    project: Project, recording: Finished, tmp_path: Path
) -> None:
    assert recording.code == 0
    other = made(tmp_path / "other")
    seed = {"PYTHONHASHSEED": "2"}
    done = other.run(*ON_CPU, "tests", "--snapshot-update", env=seed, anew=True)
    assert done.code == 0, done.text
    assert other.snapshots() == project.snapshots()


def test_a_snapshot_names_no_folder_of_the_machine(project: Project, recording: Finished) -> None:
    assert recording.code == 0
    for content in project.snapshots().values():
        assert str(project.folder).encode() not in content
        assert b"site-packages" not in content
        assert b"0x" not in content
    text = project.snapshots()["test_waves/test_waves@cpu.fx.txt"].decode()
    assert "# file: tests/test_waves.py in waves: h = x * w + 1" in text
    assert "# region: 0" in text
    assert "# gradient accumulation" in text
    assert "inductor_region_0(" in text


def test_wrong_numbers_fail_with_the_results_that_are_off(failing: Finished) -> None:
    text = failing.failure_of("test_numbers")
    assert "tests/test_waves.py::test_numbers: the compiled regions do not" in text
    assert "output: error " in text
    assert "gradient of x: error " in text
    assert "against float64: 4 of 4 elements are off" in text
    assert "snapshot" not in text.partition("Captured")[0]  # wrong numbers are never recorded


def test_a_difference_that_no_region_makes_is_said_to_be_none_of_theirs(
    failing: Finished,
) -> None:
    text = failing.failure_of("test_numbers")
    assert "with every region put back to eager the difference is still there" in text


def test_a_wrong_region_is_named_and_the_last_line_is_the_command_that_shows_it(
    project: Project, failing: Finished
) -> None:
    text = failing.failure_of("test_kernel").partition("Captured")[0]
    text = text.partition("-- fxregion graphs")[0].rstrip(" -\n")
    code = "h = torch.erf(x * 2).tanh()"
    assert "wrong: inference inductor_region_0 (region default)" in text
    assert f": {code}\n" in text.partition("wrong: ")[2]
    assert "    aten.erf.default (tests/test_waves.py:" in text
    script = "fxregion-artifacts/scripts/tests/test_waves/test_kernel.py"
    assert text.splitlines()[-2:] == ["To see it by itself, run:", f"python {script}"]
    written = (project.folder / script).read_text()
    assert "torch.ops.aten.erf.default(arg0)" in written
    assert f"  tests/test_waves.py:{line_of(WAVES, code)}: {code}" in written.splitlines()
    assert "import pytest_fxregion" not in written


def line_of(source: str, code: str) -> int:
    """Return the number of the line that holds the code."""
    return next(n for n, line in enumerate(source.splitlines(), 1) if code in line)


def test_wrong_sums_fail_with_what_is_summed_and_where(failing: Finished) -> None:
    text = failing.failure_of("test_sums")
    assert "test_sums, run 'sums': gradients are not summed as in eager" in text
    assert "float32[4]: eager makes 1 addition, the compiled call 0 additions" in text
    assert "the result of Add at tests/test_waves.py:" in text
    assert "(h = x * w + 1)" in text


def test_a_changed_graph_fails_naming_node_and_stage_and_ends_with_the_command(
    failing: Finished,
) -> None:
    text = failing.failure_of("test_changed").partition("Captured")[0]
    assert "snapshots/test_waves/test_changed@cpu.fx.txt differs" in text
    for stage in ("joint", "forward", "backward"):
        assert stage in text
    assert "tanh" in text
    command = [line for line in text.splitlines() if line.startswith("pytest ")][-1]
    assert shlex.split(command)[1:] == [
        "tests/test_waves.py::test_changed",
        *ON_CPU,
        "--snapshot-update",
    ]


def test_a_parametrized_test_is_accepted_by_a_command_that_a_shell_takes(
    failing: Finished,
) -> None:
    text = failing.failure_of("test_parametrized[2]")
    assert "pytest 'tests/test_waves.py::test_parametrized[2]' --fxregion" in text


def test_a_stage_that_is_not_one_graph_says_how_to_take_one(failing: Finished) -> None:
    text = failing.failure_of("test_graph_break")
    assert "compiled as 2 graphs" in text
    assert "run.graphs[0].forward" in text


def test_an_error_of_ours_is_shown_without_a_traceback(failing: Finished) -> None:
    """Of dynamo's and Inductor's frames, through which it came, there would be pages."""
    call = "fxregion(misspelt, fxregion.randn(4)).check()"
    first, error, *rest = failing.failure_of("test_annotation").splitlines()
    assert first == f"tests/test_waves.py:{line_of(WAVES, call)}: {call}"
    assert error.startswith("AnnotationError: tests/test_waves.py:")
    assert "'max_autotun', which torch._inductor.config does not know; did you mean" in error
    assert rest == [
        "",
        "To run this test again:",
        "pytest tests/test_waves.py::test_annotation --fxregion --fxregion-device=cpu",
    ]


def test_failing_tests_have_rows_too(failing: Finished) -> None:
    found = rows(failing)
    assert float(found["tests/test_waves.py::test_numbers"][4]) > 1
    assert found["tests/test_waves.py::test_sums (sums)"][3] == "0"  # the fault takes its tag away


def test_graphs_and_numbers_are_shown_once_whether_a_test_passes_or_fails(
    failing: Finished,
) -> None:
    assert failing.text.count("waves: return h.sin() + h.cos()") >= 1
    shown = failing.text.partition("tests/test_waves.py::test_waves ---")[2]
    shown = shown.partition("-- tests/")[0]
    for part in ("---- joint ----", "---- forward ----", "---- numbers ----", "output: error"):
        assert part in shown
    assert "---- sums of gradients, in eager ----" in shown
    wrong = failing.failure_of("test_numbers")
    assert wrong.count("float64: 4 of 4 elements are off by more than") == 4  # 2 results


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("test_unknown_setting", "does not take devise; it takes device, gpu, dynamic, tolerance"),
        ("test_positional", "does not take positional arguments"),
        ("test_unknown_device", "device is one of auto, cuda, virtual, cpu"),
        ("test_wrong_tolerance", "tolerance is a pair of numbers"),
        ("test_device_that_is_not_loaded", "give --fxregion-device=virtual"),
        ("test_device_that_is_not_there", "--fxregion-device=cuda: "),
    ],
)
def test_a_wrong_marker_is_its_tests_error(failing: Finished, test: str, text: str) -> None:
    if test == "test_device_that_is_not_there" and "cuda" in failing.line("fxregion: "):
        pytest.skip("there is a GPU here")
    error, *_, command = failing.failure_of(f"ERROR at setup of {test}").splitlines()
    assert text in error
    assert command.startswith(f"pytest markers/test_markers.py::{test} --fxregion")


def test_markers_of_class_and_method_join(failing: Finished) -> None:
    assert "test_settings_of_class_and_method_join" in " ".join(rows(failing))
    assert "FAILED markers/test_markers.py::TestSettings" not in failing.text


@pytest.mark.usefixtures("recording")
def test_where_a_gpu_is_required_its_absence_is_a_failure(project: Project) -> None:
    done = project.run(*ON_CPU, "--fxregion-gpu=required", "-k", "needs_a_gpu")
    assert done.code == 1
    assert "2 errors" in done.lines[-1]
    assert "needs a GPU: " in done.failure_of("ERROR at setup of test_needs_a_gpu[1]")
    assert "not run for want of a GPU" not in done.text
