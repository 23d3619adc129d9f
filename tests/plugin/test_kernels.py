"""Kernels as evidence: their source in snapshots, their machine code without a GPU."""

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

TEST = """
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


def test_kernel_sources_are_snapshotted_and_compiled_for_the_named_gpu(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(test_block=TEST)
    options = (
        "--fxregion",
        "--fxregion-device=virtual",
        "--fxregion-arch=h100",
        "--fxregion-stages=kernels",
        "--fxregion-compile-kernels",
        "--fxregion-show",
    )
    recorded = pytester.runpytest_subprocess(*options, "--snapshot-update")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(["*triton_poi_fused_*sm_90a: * registers, 0 B shared*"])
    (snapshot,) = pytester.path.glob("snapshots/test_block/*.fx.txt")
    text = snapshot.read_text()
    assert "# ==== inference: kernel triton_poi_fused_" in text
    assert "@triton.jit" in text
    assert "multi_processor_count=132" in text  # an H100's
    assert str(pytester.path) not in text

    again = pytester.runpytest_subprocess(*options)
    again.assert_outcomes(passed=1)
    assert snapshot.read_text() == text


def test_every_architecture_has_the_assembler_that_knows_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_block=TEST.replace("run.check()", "run.check_numerics()"))
    options = ("--fxregion", "--fxregion-device=virtual", "--fxregion-compile-kernels")
    shown = pytester.runpytest_subprocess(*options, "--fxregion-arch=b200", "--fxregion-show")
    shown.assert_outcomes(passed=1)
    shown.stdout.fnmatch_lines(["*triton_poi_fused_*sm_100a: * registers, 0 B shared*"])
