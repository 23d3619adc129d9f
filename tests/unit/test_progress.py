"""Steps reach the listener of the moment, and nobody else."""

from __future__ import annotations

import threading

import pytest

from pytest_fxregion.progress import listening, step


def test_a_listener_is_told_of_each_step_and_of_the_end() -> None:
    heard: list[str] = []
    step("before")
    with listening(heard.append):
        step("one")
        step("two")
    step("after")
    assert heard == ["one", "two", ""]


def test_the_end_is_told_of_after_an_error_too() -> None:
    heard: list[str] = []
    with pytest.raises(ZeroDivisionError), listening(heard.append):
        step(f"{1 / 0}")
    assert heard == [""]


def test_other_threads_are_not_heard() -> None:
    heard: list[str] = []
    with listening(heard.append):
        thread = threading.Thread(target=step, args=("elsewhere",))
        thread.start()
        thread.join()
    assert heard == [""]


def test_without_a_listener_nothing_happens() -> None:
    with listening(None):
        step("unheard")
