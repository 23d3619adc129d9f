"""A few random programs in each run of the suite; ``make fuzz N=3000`` runs more of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pytest_fxregion import FxRegion
from pytest_fxregion import session as fxregion_session
from tests.fuzz.chunk import drawn
from tests.fuzz.known import REASONS, explanation
from tests.fuzz.programs import Block, Input, Line, Program
from tests.fuzz.shrinking import shrunk

PROGRAMS = 24


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_agrees_with_eager(
    seed: int, fxregion: FxRegion, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from tests.fuzz.torchs_own import differs
    from tests.fuzz.trial import run

    device = fxregion_session.of(request.config).device
    assert device is not None
    program = drawn(seed)
    torch_fails = partial(differs, str(program), tmp_path, device)
    outcome = run(str(program), tmp_path, device, twice=seed % 4 == 0)
    known = outcome.ok or explanation(outcome.text, str(program), torch_fails)
    assert known, f"{outcome.text}\n\n{program}"


SHARED = Program(
    inputs=(
        Input("a", "fxregion.randn(4, 6, requires_grad=True)"),
        Input("b", "fxregion.randn(6)"),
    ),
    statements=(
        Line("v0 = a.t()"),
        Block(
            'with annotate({"compile_with_inductor": 0}):',
            (Line("v1 = torch.sin(a)"), Line("v2 = v1 + b"), Line("v3 = v1.cos()")),
        ),
        Line("v4 = v0.sum()"),
    ),
    results=("v2", "v3", "v4"),
    dynamic=True,
)


def test_a_fault_is_found_and_its_program_made_small(
    fxregion: FxRegion,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pytest_fxregion.passes.gradient_accumulation import AccumulationRecorder
    from tests.fuzz.trial import run

    device = fxregion_session.of(request.config).device
    assert device is not None
    monkeypatch.setattr(AccumulationRecorder, "mark", lambda recorder: None)
    outcome = run(str(SHARED), tmp_path, device)
    assert "gradients are not summed as in eager" in outcome.kind
    assert explanation(outcome.text, str(SHARED), lambda: True) is None
    smallest = shrunk(SHARED, lambda p: run(str(p), tmp_path, device).kind == outcome.kind, 60)
    assert [line for s in smallest.statements for line in s.lines()] == [
        "v1 = torch.sin(a)",  # whose two uses
        "v2 = v1 + b",
        "v3 = v1.cos()",
    ]
    assert not smallest.dynamic


def test_programs_are_whole_test_files_and_a_seed_always_gives_the_same() -> None:
    texts = [str(drawn(seed)) for seed in range(20)]
    assert texts == [str(drawn(seed)) for seed in range(20)]
    assert len(set(texts)) == 20
    for text in texts:
        compile(text, "test_program.py", "exec")


def test_shrinking_keeps_what_fails_and_nothing_that_has_no_meaning() -> None:
    def fails(program: Program) -> bool:
        compile(str(program), "test_program.py", "exec")
        return "torch.sin(a)" in str(program)

    smallest = shrunk(SHARED, fails, 1000)
    assert smallest.statements == (Line("v1 = torch.sin(a)"),)
    assert smallest.results == ("v1",)
    assert smallest.inputs == (Input("a", "fxregion.randn(4, 6)"),)


HOOK_IN_CHECKPOINT = """
import torch
from torch.utils.checkpoint import checkpoint


def function(a):
    v0 = a.clone()
    def stretch1(v0):
        v0.register_hook(lambda g: g * 2)
        v2 = torch.sin(v0)
        return v2
    v3 = checkpoint(stretch1, v0, use_reentrant=False)
    return v3


def test_program(fxregion):
    a = fxregion.randn(4, requires_grad=True)
    fxregion(function, a).check()
"""


def test_a_fault_of_torchs_own_is_told_by_running_torch_alone(
    fxregion: FxRegion, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from tests.fuzz.torchs_own import differs
    from tests.fuzz.trial import run

    device = fxregion_session.of(request.config).device
    assert device is not None
    outcome = run(HOOK_IN_CHECKPOINT, tmp_path, device)
    torch_fails = partial(differs, HOOK_IN_CHECKPOINT, tmp_path, device)
    assert not outcome.ok
    reason = explanation(outcome.text, HOOK_IN_CHECKPOINT, torch_fails)
    assert reason == "a hook inside of a checkpointed function is lost by dynamo"
    assert explanation(outcome.text, HOOK_IN_CHECKPOINT, lambda: False) is None
    assert not differs(str(SHARED), tmp_path, device)


def test_every_reason_is_in_known_md() -> None:
    text = Path(__file__).with_name("known.md").read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        reason.name for reason in REASONS
    ]
