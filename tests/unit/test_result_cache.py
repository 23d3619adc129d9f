"""The ``fxregion`` backend where AOTAutograd saves its results: annotations are part of the key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch._functorch.config
from torch import fx
from torch._higher_order_ops.invoke_subgraph import NestedCompileRegionOptions
from torch.fx.traceback import annotate

import pytest_fxregion.backend
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.regional.artifacts import ARTIFACTS
from pytest_fxregion.regional.output import annotations_in_key
from tests.plugin.pytest_process import Project

CACHED = {
    "enable_autograd_cache": True,
    "force_autograd_cache": True,
    "bundled_autograd_cache": True,
    "strict_autograd_cache": True,  # what fails is raised, and not compiled again
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where AOTAutograd saves its results; everything else lies where it always does."""
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    monkeypatch.setattr(AOTAutogradCache, "_get_tmp_dir_for_key", lambda key: str(tmp_path / key))
    torch._dynamo.reset()
    yield tmp_path
    torch._dynamo.reset()


def run(value: object, backend: Any = "fxregion") -> tuple[list[float], int]:
    """Compile and run as a new process would; the numbers, and how many graphs were compiled."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x.sin()
        with annotate({"compile_with_inductor": value}):
            h = h * w + 1
            top, low = h.exp(), h.cos()
        return (top * low).sin(), low.sum()

    torch._dynamo.reset()
    ARTIFACTS.reset()
    x = torch.linspace(0, 1, 4, requires_grad=True)
    compile_graph = vars(pytest_fxregion.backend)["compile_regions"]
    with (
        patch.object(pytest_fxregion.backend, "compile_regions", side_effect=compile_graph) as spy,
        torch._functorch.config.patch(CACHED),
    ):
        one, other = torch.compile(fn, backend=backend, fullgraph=True)(x, torch.ones(4))
        (one.sum() + other).backward()
    assert x.grad is not None
    return [*one.tolist(), other.item(), *x.grad.tolist()], spy.call_count


def test_same_annotation_is_found_and_any_other_compiled(folder: Path) -> None:
    first, compiled = run({"inductor_region": "r"})
    assert compiled == 2  # forward and backward
    assert run({"inductor_region": "r"}) == (first, 0)
    for value in (
        {"inductor_region": "other"},
        {"inductor_region": "r", "inductor_configs": {"epilogue_fusion": False}},
        None,
    ):
        numbers, compiled = run(value)
        assert compiled == 2, value
        torch.testing.assert_close(numbers, first)


def test_capture_sees_the_compilers_run(folder: Path) -> None:
    run(0)
    capture = Capture()
    _, compiled = run(0, RegionalBackend(capture))
    assert compiled == 2
    assert capture.result().regions


def test_annotation_that_no_key_can_tell_is_never_equal() -> None:
    def key(value: object, name: str = "compile_with_inductor") -> object:
        return key_of_custom({name: value})

    def key_of_custom(custom: object) -> object:
        gm = fx.symbolic_trace(torch.nn.Identity())
        next(iter(gm.graph.nodes)).meta["custom"] = custom
        annotations_in_key(gm)
        return gm.fxregion_annotations

    assert key({"inductor_region": "r"}) == key({"inductor_region": "r"})
    assert key({"inductor_region": 1}) != key({"inductor_region": True})
    assert key(True, "fallback_to_eager") != key(False, "fallback_to_eager")
    assert key(1, "layer") == key(2, "layer") == key_of_custom(5) == key_of_custom(None)
    value = {"inductor_region": object()}
    assert key(value) != key(value)
    options = NestedCompileRegionOptions()  # of nested_compile_region: makes a region, too
    assert key(options, "nested_region_config") != key(options, "nested_region_config")


SECOND = """
import sys
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from tests.unit import test_result_cache as t

AOTAutogradCache._get_tmp_dir_for_key = lambda key: f"{sys.argv[1]}/{key}"
print(t.run({"inductor_region": "r"}))
"""


def test_another_process_finds_the_saved_result(folder: Path) -> None:
    first, _ = run({"inductor_region": "r"})
    other = Project(folder.parent)
    other.write({"second.py": SECOND})
    # AOTAutograd has a setting of its own where CI is set, and settings are part of the key.
    env = {"CI": os.environ["CI"]} if "CI" in os.environ else {}
    done = other.run(str(folder), module="second", env=env, anew=True)
    assert done.text.splitlines()[-1] == repr((first, 0)), done.text  # torch may say more before
