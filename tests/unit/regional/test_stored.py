"""Artifacts that outlive the process.  Two tiny C++ kernels; torch's own caches serve the first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch.fx.traceback import annotate as annotated

from pytest_fxregion._torch.artifacts import compiler_stamp
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.regional import compile, compile_regions, regional_inductor, stored
from pytest_fxregion.regional.annotation import AnnotationReader
from pytest_fxregion.regional.artifacts import ARTIFACTS
from pytest_fxregion.regional.fingerprint import fingerprint
from tests.unit.regional.annotated_graphs import region, traced

X, Y = torch.linspace(0, 1, 6), torch.linspace(1, 2, 6)
MARKS = {"mul": region("r"), "add": region("r")}


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    # A kernel that no other test has loaded: torch asks for the file of one only once.
    return (x * y + 1.375).cos()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where artifacts are kept; torch's own caches stay where they are."""
    monkeypatch.setattr(stored, "inductor_cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(ARTIFACTS, "_artifacts", {})
    return tmp_path / "fxregion"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """The bodies that Inductor was given."""
    found: list[torch.fx.GraphModule] = []
    inductor = vars(compile)["standalone_compile"]

    def standalone_compile(body: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found.append(body)
        return inductor(body, inputs)

    monkeypatch.setattr(compile, "standalone_compile", standalone_compile)
    return found


def run(marks: dict[str, Any] = MARKS) -> torch.Tensor:
    """Compile and run as a new process does: without the artifacts of this one."""
    ARTIFACTS.reset()
    gm = compile_regions(traced(fn, X, Y, marks=marks)).graph_module
    with torch.no_grad():
        result: torch.Tensor = gm(X, Y)
    return result


def files(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir()}


def test_second_compile_takes_artifact_and_kernel_from_the_folder(
    folder: Path, compiled: list[Any]
) -> None:
    first = run()
    assert len(compiled) == 1
    assert files(folder) == {".region", ".so"}
    assert torch.equal(run(), first)
    assert len(compiled) == 1
    torch.testing.assert_close(first, fn(X, Y))
    assert files(folder) == {".region", ".so", ".py"}  # the module that called the kernel
    (artifact,) = ARTIFACTS._artifacts.values()
    generated: Any = artifact.generated
    kernel = generated.__globals__["cpp_fused_add_mul_0"]
    assert Path(kernel.__self__.__file__).parent == folder


def test_stored_artifact_has_all_of_its_wrappers_when_they_are_needed(folder: Path) -> None:
    run()
    ARTIFACTS.reset()
    gm = compile_regions(traced(fn, X, Y, marks=MARKS)).graph_module
    with pytest.warns(UserWarning, match="traced without gradients"):
        torch.testing.assert_close(gm(X.clone().requires_grad_(), Y), fn(X, Y))


def test_stored_region_that_writes_its_operand(folder: Path, compiled: list[Any]) -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.mul_(2)
        return y + 1

    for _ in range(2):
        ARTIFACTS.reset()
        gm = compile_regions(traced(writes, X, marks={"mul_": 0, "add": 0})).graph_module
        with torch.no_grad():
            torch.testing.assert_close(gm(X), X.sin() * 2 + 1)
    assert len(compiled) == 1


def test_stored_region_in_a_graph_that_is_being_compiled(folder: Path, compiled: list[Any]) -> None:
    """Its strides must not be taken for those of the forward around it."""

    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with annotated({"compile_with_inductor": 0}):
            sums = (x * 2).sum(0)
        return sums * (x @ w).sin()

    backend = aot_autograd(fw_compiler=regional_inductor, bw_compiler=regional_inductor)
    gradients = []
    for _ in range(2):
        torch._dynamo.reset()
        x, w = X.reshape(2, 3).clone().requires_grad_(), torch.eye(3)
        torch.compile(layer, backend=backend, fullgraph=True)(x, w).sum().backward()
        gradients.append(x.grad)
    assert len(compiled) == 2  # forward and backward
    x = X.reshape(2, 3).clone().requires_grad_()
    layer(x, torch.eye(3)).sum().backward()
    for gradient in gradients:
        torch.testing.assert_close(gradient, x.grad)


def replace(path: Path, content: bytes) -> None:
    path.unlink()  # the file of a library that is loaded must not change
    path.write_bytes(content)


@pytest.mark.parametrize("part", [0, 0.5], ids=["emptied", "cut off"])
def test_broken_files_are_compiled_again_and_replaced(
    folder: Path, compiled: list[Any], part: float
) -> None:
    first = run()
    run()
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for path, content in whole.items():
        replace(path, content[: int(len(content) * part)])
    assert torch.equal(run(), first)
    assert len(compiled) == 2
    assert torch.equal(run(), first)
    assert len(compiled) == 2
    assert {path for path in folder.iterdir() if path.read_bytes()} == set(whole)


def test_entry_of_a_broken_kernel_is_compiled_again(folder: Path, compiled: list[Any]) -> None:
    run()
    (kernel,) = folder.glob("*.so")
    replace(kernel, kernel.read_bytes()[:-1] + b"!")
    torch.testing.assert_close(run(), fn(X, Y))
    assert len(compiled) == 2


def body_and_key(
    function: Callable[..., Any] = fn,
    inputs: tuple[torch.Tensor, ...] = (X, Y),
    ambient: object = (),
    **configs: object,
) -> tuple[torch.fx.GraphModule, Any, dict[str, object]]:
    gm = traced(function, *inputs, marks={})
    key = AnnotationReader()._mapping({"inductor_configs": configs}, next(iter(gm.graph.nodes)))
    return gm, fingerprint(gm, key.configs_key, ambient), configs


def name(*args: Any, **configs: Any) -> str | None:
    return stored.entry_name(*body_and_key(*args, **configs))


def test_whatever_a_compile_depends_on_is_in_the_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        name(),
        name(epilogue_fusion=False),
        name(epilogue_fusion=True),
        name(ambient=(True,)),
        name(inputs=(X, Y.double())),
        name(inputs=(X[::2], Y[::2])),
        name(lambda x, y: (x * y + 1.0).cos()),
        name(lambda x, y: (x * y + 1).cos()),
    ]
    monkeypatch.setattr(stored, "compiler_stamp", lambda: "another torch")
    names.append(name())
    assert None not in names
    assert len(set(names)) == len(names)


def test_name_is_the_same_in_another_graph(folder: Path) -> None:
    assert name(epilogue_fusion=False, max_autotune=False) == name(
        max_autotune=False, epilogue_fusion=False
    )


def test_what_no_digest_can_tell_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @torch.library.custom_op("fxregion_test::stored", mutates_args=())
    def users(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    users.register_fake(torch.empty_like)
    assert name(users, (X,)) is None  # its code may be another one tomorrow
    with torch._inductor.config.patch(joint_custom_pre_pass=lambda graph: None):
        assert name() is None
    body, key, configs = body_and_key()
    assert stored.entry_name(body, (key, object()), configs) is None
    monkeypatch.setattr(torch._inductor, "standalone_compile", lambda *_, **__: None)
    assert name() is None  # somebody wants to see what is compiled


def test_nothing_is_kept_where_torch_keeps_nothing() -> None:
    with torch._inductor.config.patch(force_disable_caches=True):
        assert name() is None


def test_interrupted_write_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[Any]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stored._write(folder.parent / "entry", b"content")
    assert list(folder.parent.iterdir()) == []


def test_the_compilers_stamp_follows_what_the_virtual_device_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First asked for inside of it, it was that of another compiler ever after."""
    with monkeypatch.context() as active:
        active.setattr(torch.version, "cuda", "0.0")
        inside = compiler_stamp()
    assert compiler_stamp() != inside


SECOND = """
import sys
import torch
from pytest_fxregion.regional import compile_regions
from tests.unit.regional import test_stored as t

t.stored.inductor_cache_folder = lambda: sys.argv[1]
print(t.run().tolist() == eval(sys.argv[2]))
compilers = {"torch._inductor.compile_fx", "torch._inductor.lowering"}
print(sorted(compilers & sys.modules.keys()))
"""


def test_another_process_finds_it_and_imports_no_compiler(folder: Path) -> None:
    first = run()
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(folder.parent), repr(first.tolist())],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["True", "[]"], done.stderr
