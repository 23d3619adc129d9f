"""A compile that is cut off leaves no lock, no artifact without kernels and no half-written file.

``pytest-timeout`` cuts off in two ways: its signal method raises from a handler of SIGALRM, its
thread method ends the process where it stands.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.graph import GraphLowering

from pytest_fxregion.errors import RegionError
from pytest_fxregion.regional import compile_regions, stored
from pytest_fxregion.regional.artifacts import ARTIFACTS
from tests.unit.regional.annotated_graphs import region, traced

X = torch.linspace(0, 1, 5)
MARKS = {"add": region("a"), "mul": region("b")}


def fn(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).sin() * 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stored, "inductor_cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    return tmp_path / "fxregion"


class TimedOut(BaseException):
    """As ``pytest.fail`` from pytest-timeout's handler: no Exception."""


@pytest.fixture
def handlers() -> Iterator[None]:
    def timed_out(*_: Any) -> None:
        raise TimedOut

    before = {
        signal.SIGALRM: signal.signal(signal.SIGALRM, timed_out),
        # A shell's background job ignores it.
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def free_locks(folder: Path) -> bool:
    """Whether every lock of Inductor's can be taken, once its workers are done."""
    from torch.utils._filelock import FileLock

    for path in folder.rglob("*.lock"):
        with FileLock(str(path), timeout=120):
            pass
    return True


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, TimedOut)],
    ids=["interrupt", "timeout"],
)
def test_signal_in_the_middle_of_the_second_region(
    folder: Path,
    handlers: None,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    error: type[BaseException],
) -> None:
    lower = GraphLowering.run
    lowered: list[int] = []

    def run(self: GraphLowering, *args: Any) -> Any:
        lowered.append(1)
        if len(lowered) == 2:
            signal.raise_signal(number)
        return lower(self, *args)

    gm = traced(fn, X, marks=MARKS)
    monkeypatch.setattr(GraphLowering, "run", run)
    with torch._functorch.config.patch(enable_autograd_cache=False), pytest.raises(error):
        compile_regions(gm)
    assert all(path.suffix in (".region", ".so") for path in folder.iterdir())
    assert free_locks(Path(torch._inductor.runtime.cache_dir_utils.cache_dir()))
    monkeypatch.undo()
    with torch.no_grad():
        torch.testing.assert_close(compile_regions(gm).graph_module(X), fn(X))


def built(kernel: Future[None]) -> Any:
    kernel.set_result(None)
    return kernel


def test_region_that_is_not_lowered_does_not_lose_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []

    def fake(body: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
        compiled.append(body.code)
        if len(compiled) == 2:
            raise RuntimeError("no such kernel")
        AsyncCompile().wait({"kernel": built(Future())})
        return body

    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    monkeypatch.setattr(torch._inductor, "standalone_compile", fake)
    gm = traced(fn, X, marks=MARKS)
    with (
        torch._inductor.config.patch(compile_threads=2),
        pytest.raises(RegionError, match=r"^inductor_region_1 could not be compiled"),
    ):
        compile_regions(gm)
    compile_regions(gm)
    assert compiled == [compiled[0], compiled[1], compiled[1]]


def test_interrupt_while_kernels_are_built_forgets_their_artifacts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    def fake(body: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
        AsyncCompile().wait({"kernel": Interrupted()})
        return body

    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    monkeypatch.setattr(torch._inductor, "standalone_compile", fake)
    with torch._inductor.config.patch(compile_threads=2), pytest.raises(KeyboardInterrupt):
        compile_regions(traced(fn, X, marks=MARKS))
    assert ARTIFACTS._artifacts == {}


def test_process_that_ends_while_it_writes_leaves_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if not child:  # ends where pytest-timeout's thread would end it
        os.replace = lambda *_: os._exit(1)
        stored._write(tmp_path / "entry.region", b"content")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert not (tmp_path / "entry.region").exists()
    stored._write(tmp_path / "entry.region", b"content")
    assert (tmp_path / "entry.region").read_bytes() == b"content"
