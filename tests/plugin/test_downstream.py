"""The wheel, installed into a fresh environment, serves a project that knows nothing else of us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.plugin.pytest_process import SOURCE_TREE, clean_environment

TYPES = {".py", ".typed", ".cpp", ".h", ".j2", ".css", ".js"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(SOURCE_TREE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("pytest_fxregion-*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = [Path(name) for name in ZipFile(wheel).namelist()]
    packaged = {name for name in names if name.parts[0] == "pytest_fxregion"}
    assert all(name.parts[0].endswith(".dist-info") for name in set(names) - packaged)
    assert {name.suffix for name in packaged} <= TYPES
    tree = SOURCE_TREE / "pytest_fxregion"
    there = {
        path.relative_to(SOURCE_TREE)
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packaged == there
    assert Path("pytest_fxregion/py.typed") in packaged
    assert Path("pytest_fxregion/device/virtual/native/device.cpp") in packaged


def test_a_project_downstream_passes_with_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    # What the package needs is taken from the environment of this run; the package itself is not:
    # an editable install is known by a .pth file, which is read in a site folder of its own only.
    (site,) = environment.glob("lib/python3.*/site-packages")
    needed = [path for path in sys.path if path.endswith("site-packages")]
    (site / "needed.pth").write_text("\n".join(needed) + "\n")

    project = tmp_path / "downstream"
    shutil.copytree(SOURCE_TREE / "examples" / "downstream", project)
    clean = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "--fxregion-device=virtual", "-rA"],
        cwd=project,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "PASSED tests/test_gated.py::test_training" in done.stdout
    where = [str(python), "-c", "import pytest_fxregion; print(pytest_fxregion.__file__)"]
    done = subprocess.run(where, cwd=project, env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(os.fspath(site))
