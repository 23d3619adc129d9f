"""Kernels as evidence: their source in snapshots, their machine code without a GPU."""

from __future__ import annotations

from pathlib import Path

from tests.plugin.pytest_process import Project

TEST = """\
from torch.fx.traceback import annotate

def block(x):
    with annotate({"compile_with_inductor": 0}):
        return (x * 2 + 1).sin()

def test_block(fxregion):
    run = fxregion(block, fxregion.randn(10))
    run.check()
    assert [kernel.language for kernel in run.kernels] == ["triton"]
    (code,) = run.machine_code
    assert code.registers > 0
    assert not code.spills
    assert ".target sm_" in code.ptx
"""


def test_kernel_sources_are_snapshotted_and_compiled_for_the_named_gpu(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write({"pytest.ini": "[pytest]\n", "test_block.py": TEST})
    options = (
        "--fxregion",
        "--fxregion-device=virtual",
        "--fxregion-arch=h100",
        "--fxregion-stages=kernels",
        "--fxregion-compile-kernels",
        "--fxregion-show",
    )
    recorded = project.run(*options, "--snapshot-update")
    assert recorded.code == 0, recorded.text
    recorded.line("triton_poi_fused_", "sm_90a: ", " registers, 0 B shared")
    (snapshot,) = tmp_path.glob("snapshots/test_block/*.fx.txt")
    text = snapshot.read_text()
    assert "# ==== inference: kernel triton_poi_fused_" in text
    assert "@triton.jit" in text
    assert "multi_processor_count=132" in text  # an H100's
    assert str(tmp_path) not in text

    again = project.run(*options)
    assert again.code == 0, again.text
    assert snapshot.read_text() == text


def test_every_architecture_has_the_assembler_that_knows_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    test = TEST.replace("run.check()", "run.check_numerics()")
    project.write({"pytest.ini": "[pytest]\n", "test_block.py": test})
    options = ("--fxregion", "--fxregion-device=virtual", "--fxregion-compile-kernels")
    shown = project.run(*options, "--fxregion-arch=b200", "--fxregion-show")
    assert shown.code == 0, shown.text
    shown.line("triton_poi_fused_", "sm_100a: ", " registers, 0 B shared")
