"""Chunks of programs go on where they were stopped.  Nothing is compiled: no program is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.device import virtual
from tests.fuzz import __main__ as fuzz
from tests.fuzz import chunk

OK: dict[str, Any] = {
    "kind": "ok",
    "explained": None,
    "seconds": 1.0,
    "regions": 2,
    "said": [],
    "source": "x",
}


def write(log: Path, *rows: dict[str, Any]) -> None:
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that a chunk would run."""
    seeds: list[int] = []

    @contextmanager
    def activate(_name: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(virtual, "load", lambda: None)
    monkeypatch.setattr(virtual, "activate", activate)
    monkeypatch.setattr(chunk, "_run", lambda left, _folder, _log: seeds.extend(left))
    return seeds


def test_what_failed_without_a_reason_and_what_was_stopped_is_run_again(
    tmp_path: Path, ran: list[int]
) -> None:
    write(
        tmp_path / "0.jsonl",
        {"seed": 0, **OK},
        {"seed": 1, **OK, "kind": "TypeError"},
        {"seed": 2, **OK, "kind": "TypeError", "explained": "torch's own"},
        {"seed": 3, "source": "x"},
    )
    with (tmp_path / "0.jsonl").open("a") as log:
        log.write('{"seed": 4, "kind": "o')  # the process was stopped here
    chunk.main(0, 5, tmp_path)
    assert ran == [1, 3, 4]
    assert chunk.rows_of(tmp_path / "0.jsonl")[-1] == {"done": 5}


def test_a_program_that_ends_its_process_twice_is_an_outcome(
    tmp_path: Path, ran: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "0.jsonl", {"seed": 0, "source": "x"}, {"seed": 0, "source": "x"})
    chunk.main(0, 2, tmp_path)
    assert ran == [1]
    assert fuzz.report(tmp_path, range(0, 2, 150)) == 1
    assert chunk.ENDED in capsys.readouterr().out


def test_the_report_counts_each_program_once_and_by_its_last_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "0.jsonl",
        {"seed": 0, **OK, "kind": "TypeError"},
        {"seed": 1, **OK, "kind": "TypeError", "explained": "torch's own"},
        {"seed": 0, **OK},
    )
    assert fuzz.report(tmp_path, range(0, 150, 150)) == 0
    said = capsys.readouterr().out
    assert "2 programs, 4 compiled regions" in said
    assert "1 agree with eager in every check" in said
    assert "1 explained: torch's own" in said
    assert "0 unexplained" in said
