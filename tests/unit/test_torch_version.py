"""Which torch is installed, and is the Triton its own, judged by their metadata alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from pytest_fxregion import torch_version
from pytest_fxregion.errors import FxRegionError


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    torch_version.installed.cache_clear()
    yield
    torch_version.installed.cache_clear()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str | None:
    """Let the torch that is installed have the version of the test's parameter; None: no torch."""
    version: str | None = request.param

    def read(name: str) -> str:
        assert name == "torch"
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", read)
    return version


GOOD = [
    "2.11",
    "2.11.0",
    "2.13.0+cpu",
    "2.15.1+cu130",
    "2.11.0a0+git1234567",
    "2.14.0.dev20260101+cu128",
    "2.12.0rc3",
    "2.15.0.post1",
]
OLD = ["2.10.9", "2.10.0+cu128", "1.13.1", "2.2.0", "2.10.0.dev20260101"]
NEW = ["2.16.0", "2.16.0.dev20270101+cpu", "3.0.0"]


@pytest.mark.parametrize("installed", GOOD, indirect=True)
def test_supported_versions_pass_in_silence(installed: str) -> None:
    torch_version.require()
    assert torch_version.newer_than_tested() is None
    assert torch_version.installed() == installed


@pytest.mark.parametrize("installed", OLD, indirect=True)
def test_a_version_that_is_too_old_is_named_with_the_command_that_helps(installed: str) -> None:
    with pytest.raises(FxRegionError) as error:
        torch_version.require()
    text = str(error.value)
    assert f"{installed} is installed" in text
    assert "pip install 'torch>=2.11'" in text
    assert "\n" not in text


@pytest.mark.parametrize("installed", NEW, indirect=True)
def test_a_newer_version_runs_with_one_line(installed: str) -> None:
    torch_version.require()
    line = torch_version.newer_than_tested()
    assert line == f"torch {installed} is newer than the newest tested, 2.15"


@pytest.mark.parametrize(
    ("torch", "triton", "advice"),
    [
        ("2.13.0+cpu", "3.7.1", None),
        ("2.13.0+cpu", None, None),
        ("2.16.0", "4.0.0", None),
        (
            "2.13.0+cpu",
            "3.9.0",
            "Triton 3.9.0 is not the one that belongs to torch 2.13: pip install 'triton==3.7.*'",
        ),
    ],
)
def test_another_torchs_triton_is_a_line(
    monkeypatch: pytest.MonkeyPatch, torch: str, triton: str | None, advice: str | None
) -> None:
    def read(name: str) -> str:
        version = {"torch": torch, "triton": triton}[name]
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", read)
    assert torch_version.other_triton() == advice


def test_the_constraints_have_the_same_tritons() -> None:
    files = Path(__file__).parents[2].glob("constraints/torch-*.txt")
    pinned = {
        file.stem.removeprefix("torch-"): re.findall(r"^triton==(\d+\.\d+)", file.read_text(), re.M)
        for file in files
    }
    assert pinned == {torch: [triton] for torch, triton in torch_version.TRITON_OF.items()}


@pytest.mark.parametrize("installed", [None], indirect=True)
@pytest.mark.usefixtures("installed")
def test_no_torch_at_all() -> None:
    with pytest.raises(FxRegionError, match="needs torch, which is not installed: pip install"):
        torch_version.require()


@pytest.mark.parametrize("installed", ["main", "unknown+git"], indirect=True)
def test_a_version_that_is_none_says_so(installed: str) -> None:
    with pytest.raises(FxRegionError, match=f"torch {re.escape(installed)} is"):
        torch_version.require()
