"""What is saved and what is computed again, under every kind of checkpointing, and the bound."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from pytest_fxregion import CheckError, RegionRun, SavedValue, region
from pytest_fxregion._torch.dynamo import reset_compiler
from pytest_fxregion.checks.as_traced import only_torchs_own_trace
from pytest_fxregion.checks.memory import parse_bytes, too_much_saved
from pytest_fxregion.errors import FxRegionWarning, OptionError
from tests.unit.checks.running import run_of

HERE = Path(__file__)


def leaf(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).requires_grad_()


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (0, 0),
        (4096, 4096),
        ("512 B", 512),
        ("512B", 512),
        ("1.5 MiB", 1572864),
        ("2 KiB", 2048),
        ("1 GB", 10**9),
        (" 3 kB ", 3000),
    ],
)
def test_a_bound_is_a_number_of_bytes_or_a_text(bound: int | str, expected: int) -> None:
    assert parse_bytes(bound) == expected


@pytest.mark.parametrize("bound", [-1, 1.5, True, None, "", "big", "12", "3 kiB", "-1 B", "1 Mi"])
def test_anything_else_is_an_error_that_says_what_is_meant(bound: Any) -> None:
    with pytest.raises(OptionError, match=r"a text like '1\.5 MiB'"):
        parse_bytes(bound)


def test_what_is_over_the_bound_is_listed_by_size_and_the_rest_summed_up() -> None:
    saved = [SavedValue(f"v{n}", "f32[1]", str(n * 512), n * 512) for n in range(11)]
    text = too_much_saved(saved, 1024)
    assert text is not None
    first, *lines = text.splitlines()
    assert first == (
        "27.5 KiB are saved for the backward, 1.0 KiB at most were asked for "
        "(26.5 KiB too much); the largest of 11 values:"
    )
    assert lines[0] == '  5.0 KiB  v10: "f32[1]", computed outside of regions'
    assert lines[-1] == "  and 3 more: 1.5 KiB"
    assert len(lines) == 9
    assert too_much_saved(saved, 27 * 1024 + 512) is None


def wave(x: Tensor) -> Tensor:
    return x.sin().exp().cos()


def product(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).sin().exp()


def save_matmuls(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    if operation is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def reentrant(x: Tensor, w: Tensor) -> Tensor:
    y: Tensor = checkpoint(product, x, w, use_reentrant=True)
    return y @ w


def non_reentrant(x: Tensor, w: Tensor) -> Tensor:
    y: Tensor = checkpoint(product, x, w, use_reentrant=False)
    return y @ w


def selective(x: Tensor, w: Tensor) -> Tensor:
    contexts = functools.partial(create_selective_checkpoint_contexts, save_matmuls)
    y: Tensor = checkpoint(product, x, w, use_reentrant=False, context_fn=contexts)
    return y @ w


def nested(x: Tensor, w: Tensor) -> Tensor:
    def inner(t: Tensor) -> Tensor:
        y: Tensor = checkpoint(wave, t @ w, use_reentrant=False)
        return y.tanh()

    y: Tensor = checkpoint(inner, x, use_reentrant=False)
    return y @ w


def with_random_numbers(x: Tensor, w: Tensor) -> Tensor:
    def inner(t: Tensor) -> Tensor:
        return torch.nn.functional.dropout((t @ w).sin(), 0.5).exp()

    y: Tensor = checkpoint(inner, x, use_reentrant=False)
    return y @ w


@pytest.fixture(scope="module")
def runs() -> Callable[[Callable[..., Any]], RegionRun]:
    """Return the run of a function, which is compiled once for all tests of this file."""

    @functools.cache
    def run(function: Callable[..., Any]) -> RegionRun:
        return run_of(function, leaf(8, 8), leaf(8, 8))

    return run


Runs = Callable[[Callable[..., Any]], RegionRun]
MATRIX = 8 * 8 * 4


def operators(run: RegionRun, names: Any) -> set[str]:
    """Return the operators of the joint graph's nodes of those names."""
    return {
        str(node.target).split(".")[1]
        for node in run.joint.graph.graph.nodes
        if node.name in names and node.op == "call_function"
    }


# torch 2.11 saves what the outer call hands to the inner one.
OF_THE_OUTER_CALL: set[str] = set() if torch.__version__.startswith("2.11.") else {"mm"}


@pytest.mark.parametrize(
    ("function", "again"),
    [
        (reentrant, {"mm", "sin", "exp"}),
        (non_reentrant, {"mm", "sin", "exp"}),
        (selective, {"sin", "exp"}),
        (nested, {"sin", "exp", "cos", "tanh"} | OF_THE_OUTER_CALL),
    ],
)
def test_what_a_checkpointed_call_computes_again(
    function: Callable[..., Any], again: set[str], runs: Runs
) -> None:
    run = runs(function)
    run.check_numerics()
    run.check_gradient_accumulation()
    found = operators(run, run.forward.recomputed)
    assert found - {"detach"} == again
    assert run.forward.recomputed == run.backward.recomputed
    computed = [name for name in run.forward.recomputed if not name.startswith("detach")]
    assert run.forward.recomputed_bytes == MATRIX * len(computed)  # the others are views
    assert run.forward.saved_bytes == run.forward.saved_by_region[None]


def test_selective_checkpointing_saves_by_the_policy_which_the_text_has_for_each_operation(
    runs: Runs,
) -> None:
    run, all_again = runs(selective), runs(non_reentrant)
    saved = operators(run, {value.name for value in run.forward.saved_for_backward})
    assert "mm" in saved
    assert "mm" not in operators(run, run.forward.recomputed)
    assert run.forward.saved_bytes == all_again.forward.saved_bytes + MATRIX
    lines = run.joint.text.splitlines()
    policies = {
        line.split("aten.")[1].split(".")[0]: lines[at - 1].strip()
        for at, line in enumerate(lines)
        if "ac_graph_id" in lines[at - 1] and "aten." in line
    }
    assert policies["mm"] == "# ac_graph_id: 0 - MUST_SAVE"
    assert policies["sin"] == "# ac_graph_id: 0 - PREFER_RECOMPUTE"


def test_what_is_drawn_again_is_the_forwards_mask(runs: Runs) -> None:
    run = runs(with_random_numbers)
    run.check_numerics()  # with another mask the gradients would be others
    assert any("rng_state" in name or "with_rng" in name for name in run.forward.recomputed)


def test_without_the_fixture_too_the_mask_is_drawn_again_as_it_was() -> None:
    def function(x: Tensor) -> Tensor:
        y: Tensor = checkpoint(
            lambda t: torch.nn.functional.dropout(t.sin() + 2, 0.5).exp(), x, use_reentrant=False
        )
        return y

    reset_compiler()
    x = leaf(64)
    with only_torchs_own_trace():
        y = torch.compile(function, backend="fxregion")(x)
        y.sum().backward()
    reset_compiler()
    assert x.grad is not None
    dropped = y == 1
    assert 10 < int(dropped.sum()) < 54
    assert torch.equal(x.grad == 0, dropped)


def test_what_is_drawn_again_is_left_out_of_its_region_and_a_warning_names_it() -> None:
    def function(x: Tensor) -> Tensor:
        def inner(t: Tensor) -> Tensor:
            with region():
                t = torch.nn.functional.dropout(t, 0.5)
            return t.exp()

        y: Tensor = checkpoint(inner, x, use_reentrant=False)
        return y

    with pytest.warns(FxRegionWarning) as warned:
        run = run_of(function, leaf(8))
    named = [str(w.message) for w in warned if "checkpointing draws again" in str(w.message)]
    assert len(named) == 1
    assert named[0].startswith("test_it: `run_and_save_rng_state` (test_memory.py:")
    assert run.notes == (named[0].removeprefix("test_it: "),)
    assert {r.kind for r in run.regions} == {"backward"}
    run.check_numerics()


@pytest.mark.skipif(
    not hasattr(torch.autograd.graph, "region_activation_memory_budget"),
    reason="torch has no region_activation_memory_budget before 2.13",
)
def test_a_memory_budget_decides_what_is_saved() -> None:
    def within(budget: float) -> RegionRun:
        def function(x: Tensor) -> Tensor:
            with torch.autograd.graph.region_activation_memory_budget(budget):
                h = (x @ x).sin().exp()
                return (h @ x).cos().exp()

        run = run_of(function, leaf(8, 8))
        run.check_numerics()
        run.check_gradient_accumulation()
        return run

    nothing, everything = within(0.0), within(1.0)
    assert nothing.forward.saved_bytes < everything.forward.saved_bytes
    assert nothing.forward.recomputed_bytes > everything.forward.recomputed_bytes


def test_the_bound_holds_or_the_error_lists_where_the_bytes_come_from(runs: Runs) -> None:
    run = runs(selective)
    total = run.forward.saved_bytes
    run.check_memory(saved_at_most=total)
    run.check_memory(saved_at_most="1 MiB")
    with pytest.raises(CheckError) as error:
        run.check_memory(saved_at_most=total - 1)
    text = str(error.value)
    assert text.startswith(f"test_it: {total} B are saved for the backward, {total - 1} B at most")
    assert f'256 B  mm: "f32[8, 8][8, 1]cpu", computed outside of regions, {HERE.name}:' in text
    assert '256 B  primals_1: "f32[8, 8][8, 1]cpu", an input of the graph\n' in text + "\n"


def test_bytes_are_told_by_region() -> None:
    def function(x: Tensor) -> Tensor:
        def inner(t: Tensor) -> Tensor:
            with region("waves"):
                t = t.sin().exp()
            return t.cos()

        y: Tensor = checkpoint(inner, x, use_reentrant=False)
        with region("plain"):
            y = y.sigmoid()
        return y

    run = run_of(function, leaf(8, 8))
    run.check_numerics()
    labels = {r.name: r.label for r in run.forward.regions}
    saved = {labels.get(name or ""): n for name, n in run.forward.saved_by_region.items()}
    assert saved == {None: MATRIX, "'plain'": MATRIX}
    again = {labels.get(name or ""): n for name, n in run.forward.recomputed_by_region.items()}
    assert again["'waves'"] == run.forward.recomputed_bytes == 2 * MATRIX
    assert {r.kind for r in run.backward.regions} == {"recompute", "backward"}
    assert sum(run.backward.recomputed_by_region.values()) == 2 * MATRIX
    with pytest.raises(CheckError, match=r"a result of inductor_region_1, test_memory\.py"):
        run.check_memory(saved_at_most=0)
