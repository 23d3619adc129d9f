"""Building and loading the native library, without building it: the compiler is a stand-in."""

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_fxregion.device import virtual
from pytest_fxregion.device.virtual import build, loader
from pytest_fxregion.errors import DeviceError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one without the device: under ``--fxregion`` it may have been loaded."""
    monkeypatch.setattr(loader, "_library", None)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FXREGION_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "virtual-cuda"


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """A compiler that does what ``body`` (shell, with the target's path in $out) says."""
    script = tmp_path / "compiler"
    script.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            for word; do [ "$take" = 1 ] && out=$word; take=0; [ "$word" = -o ] && take=1; done
            {body}
            """
        )
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return script


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_the_device_imports_neither_torch_nor_triton() -> None:
    done = python(
        """
        import sys
        from pytest_fxregion.device import virtual
        assert virtual.unavailable() is None, virtual.unavailable()
        assert list(virtual.ARCHITECTURES) == ["h100", "h200", "a100", "l4", "b200"]
        assert not {"torch", "triton"} & set(sys.modules)
        """
    )
    assert done.returncode == 0, done.stderr


def test_torch_imported_too_early_is_told_by_whom(tmp_path: Path) -> None:
    (tmp_path / "hasty.py").write_text("import torch\n")
    done = python(
        """
        import hasty
        from pytest_fxregion.device import virtual
        try:
            virtual.load()
        except Exception as error:
            print(type(error).__name__, error)
        """,
        PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}",
    )
    assert "DeviceError the virtual CUDA device has to be loaded before torch" in done.stdout
    assert f"imported by hasty, {tmp_path / 'hasty.py'}" in done.stdout
    assert "--fxregion-device=cpu" in done.stdout


def test_use_before_loading_is_an_error() -> None:
    with pytest.raises(DeviceError, match="load"):
        virtual.activate("h100").__enter__()


def test_a_library_is_built_once_and_told_in_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    stand_in(tmp_path, monkeypatch, f'echo "$@" >> {calls}; echo made > $out')
    lines: list[str] = []
    path = build.build(lines.append)
    assert path.read_text() == "made\n"
    assert len(lines) == 1
    assert "building the virtual CUDA device" in lines[0]
    compiled = len(list(build.SOURCES.glob("*.cpp")))
    assert len(calls.read_text().splitlines()) == compiled + 1
    assert build.build(lines.append) == path
    assert len(lines) == 1
    assert sorted(p.suffix for p in cache.iterdir()) == [".lock", ".so"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_two_processes_build_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    stand_in(tmp_path, monkeypatch, f'echo "$@" >> {calls}; sleep 0.3; echo made > $out')
    code = "from pytest_fxregion.device.virtual import build; build.build()"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        for _ in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    linked = [line for line in calls.read_text().splitlines() if "-shared" in line]
    assert len(linked) == 1


def test_the_name_depends_on_the_torch_the_compiler_and_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    names = set()
    for version, commit in (("2.13.0+cpu", "a"), ("2.13.0+cu130", "a"), ("2.13.0+cpu", "b")):
        (torch / "version.py").write_text(f"__version__ = '{version}'\ngit_version = '{commit}'\n")
        names.add(build.library_path(torch, ["g++"], tmp_path))
    names.add(build.library_path(torch, ["clang++"], tmp_path))
    sources = tmp_path / "native"
    sources.mkdir()
    (sources / "device.cpp").write_text("// other\n")
    monkeypatch.setattr(build, "SOURCES", sources)
    names.add(build.library_path(torch, ["clang++"], tmp_path))
    assert len(names) == 5


def test_a_failing_compiler_is_named_with_its_command_and_its_words(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = stand_in(tmp_path, monkeypatch, "echo 'fatal: no such header'; exit 1")
    with pytest.raises(DeviceError) as caught:
        build.build(lambda line: None)
    assert f"{script} -fPIC" in str(caught.value)
    assert "fatal: no such header" in str(caught.value)
    assert not list(cache.glob("*.so"))


def test_no_compiler_is_said_with_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert (
        virtual.unavailable()
        == "the virtual CUDA device needs a C++ compiler (g++, clang++ or CXX)"
    )
    with pytest.raises(DeviceError, match=r"needs a C\+\+ compiler.*--fxregion-device=cpu"):
        build.build()


def test_a_compiler_that_is_not_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(DeviceError, match=r"cannot run the C\+\+ compiler"):
        build.build(lambda line: None)


def test_a_cache_that_others_can_enter_is_refused(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o755)
    with pytest.raises(DeviceError, match="chmod 700"):
        build.cache_folder()


def test_a_cache_that_is_a_link_is_refused(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    cache.symlink_to(elsewhere)
    with pytest.raises(DeviceError, match="not a folder of this user"):
        build.cache_folder()


def test_a_cache_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(DeviceError, match="not a folder of this user"):
        build.cache_folder()


@pytest.mark.parametrize("version", ["2.10.0", "2.16.0", "3.0.0"])
def test_an_unsupported_torch_is_said(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '{version}'\n")
    monkeypatch.setattr(build, "torch_folder", lambda: tmp_path)
    reason = virtual.unavailable()
    assert reason is not None
    assert reason.endswith(f"supports torch 2.11 to 2.15, not {version}")
