"""The process that compiles kernels, where the assembler refuses."""

from pathlib import Path

import pytest

from pytest_fxregion.kernels import worker


def test_what_the_assembler_says_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"--gpu-name=sm_90a .*\nended with 255:\nptxas.* fatal"):
        worker._assemble("no PTX", "sm_90a", 90, tmp_path)
