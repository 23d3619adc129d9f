"""Our text in the place of torch's, where torch or a test asks a graph for its text."""

from __future__ import annotations

import ast
import logging
from typing import Any

import pytest
import torch
from torch import fx

from pytest_fxregion import readable_in_torch
from pytest_fxregion.readable import render

TORCHS = fx.GraphModule.print_readable


def graph_with(**meta: Any) -> fx.GraphModule:
    graph = fx.Graph()
    y = graph.call_function(torch.ops.aten.sin.default, (graph.placeholder("x"),))
    y.meta |= meta
    graph.output(y)
    return fx.GraphModule({}, graph)


# What torch's own raises on, or makes no Python of.
@pytest.mark.parametrize(
    ("meta", "line"),
    [
        ({"recompute": True}, "# recompute: True"),
        ({"recompute": 1}, "# recompute: 1"),
        ({"custom": "tag"}, "# custom: 'tag'"),
        ({"custom": {"k": "x" * 80 + "\n"}}, "# k: '" + "x" * 80 + "\\n'"),
        ({"is_gradient_acc": True}, "# gradient accumulation (is_gradient_acc)"),
    ],
)
def test_a_graph_is_asked_for_its_text(
    meta: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gm = graph_with(**meta)
    with readable_in_torch():
        text = gm.print_readable(include_stride=True, expanded_def=True)
    assert capsys.readouterr().out == text + "\n"
    assert text == render(gm)
    assert line in [each.strip() for each in text.splitlines()]


def test_keys_that_are_asked_for_are_shown_in_one_line_each() -> None:
    gm = graph_with(note="l1\nl2", custom={"k": 1})
    with readable_in_torch():
        text = gm.print_readable(print_output=False, additional_meta=["note", "not there"])
    ast.parse(text)
    lines = [line.strip() for line in text.splitlines()]
    assert lines[2:4] == ["# k: 1", "# note: 'l1\\nl2'"]
    assert "not there" not in text


def test_torchs_own_is_back_afterwards() -> None:
    def failing() -> None:
        with readable_in_torch():
            assert fx.GraphModule.print_readable is not TORCHS
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert fx.GraphModule.print_readable is TORCHS


def test_torchs_log_of_a_compilation_has_it(caplog: pytest.LogCaptureFixture) -> None:
    def annotated(x: torch.Tensor) -> torch.Tensor:
        with torch.fx.traceback.annotate({"stage": "x" * 60}):
            return x.sin()

    torch._dynamo.reset()
    logs: Any = torch._logging
    logs.set_logs(aot_graphs=True)
    loggers = map(logging.getLogger, list(logging.root.manager.loggerDict))
    apart = [each for each in loggers if not each.propagate]  # pytest 8 does not listen to these
    for logger in apart:
        logger.addHandler(caplog.handler)
    try:
        with readable_in_torch():
            torch.compile(annotated, backend="aot_eager")(torch.ones(2, requires_grad=True))
    finally:
        for logger in apart:
            logger.removeHandler(caplog.handler)
        logs.set_logs()
    assert f"# stage: '{'x' * 60}'" in caplog.text
