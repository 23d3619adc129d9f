"""Source comments name file, function and code; neither line numbers nor machines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import fx

from pytest_fxregion.readable import render
from pytest_fxregion.readable.source import SourceLines

ROOT = Path("/home/me/project")


def frame(file: str, function: str, *code: str, line: int = 3) -> str:
    return f'  File "{file}", line {line}, in {function}\n' + "".join(f"    {c}\n" for c in code)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/me/project/tests/test_a.py", "tests/test_a.py"),
        ("/home/me/project/.venv/lib/python3.11/site-packages/pkg/a.py", "pkg/a.py"),
        ("/usr/lib/python3/dist-packages/pkg/a.py", "pkg/a.py"),
        ("/opt/other/model.py", "model.py"),
        ("/home/me/project2/model.py", "model.py"),
        ("<stdin>", "<stdin>"),
        ("<eval_with_key>.17", "<eval_with_key>"),
        ("<eval_with_key>.20 from /home/me/x.py:1738 in wrapped", "<eval_with_key>"),
        (f"{Path(torch.__file__).parent}/nn/functional.py", "torch/nn/functional.py"),
        ("model.py", "model.py"),
    ],
)
def test_a_path_is_the_same_on_every_machine(file: str, shown: str) -> None:
    assert SourceLines(ROOT).line(frame(file, "f", "x = 1")) == f"{shown} in f: x = 1"


def test_without_a_root_only_the_name_is_shown() -> None:
    assert SourceLines().shown_path("/home/me/project/model.py") == "model.py"


def test_a_root_behind_a_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    for seen in (real, link):
        assert SourceLines(link).shown_path(f"{seen}/a/b.py") == "a/b.py"


def test_the_innermost_frame_outside_of_torch_counts() -> None:
    trace = frame("/home/me/project/a.py", "outer", "model(x)")
    trace += frame("/home/me/project/b.py", "forward", "self.linear(x)")
    trace += frame(
        "/venv/lib/python3.11/site-packages/torch/nn/linear.py", "forward", "F.linear(x)"
    )
    assert SourceLines(ROOT).line(trace) == "b.py in forward: self.linear(x)"


def test_if_all_frames_are_torchs_the_innermost_counts() -> None:
    trace = "".join(
        frame(f"/venv/lib/python3.11/site-packages/torch/{name}.py", name, "y") for name in "ab"
    )
    assert SourceLines(ROOT).line(trace) == "torch/b.py in b: y"


@pytest.mark.parametrize(
    "code",
    [
        ("y = f(", "       ^^"),
        ("y = f(", "    x,", ")", "^^^^^^^"),
        ("y = f(",),
    ],
)
def test_of_a_statement_over_several_lines_the_first_is_shown(code: tuple[str, ...]) -> None:
    assert SourceLines(ROOT).line(frame("a.py", "f", *code)) == "a.py in f: y = f("


def test_a_function_resumed_after_a_graph_break_keeps_its_name() -> None:
    trace = frame("a.py", "torch_dynamo_resume_in_block_at_12", "y = 1")
    assert SourceLines(ROOT).line(trace) == "a.py in block: y = 1"


def test_code_that_cannot_be_printed_is_escaped() -> None:
    trace = frame("a.py", "f", "s = '\x0c\u2028\x00é'")
    assert SourceLines(ROOT).line(trace) == "a.py in f: s = '\\x0c\\u2028\\x00é'"


@pytest.mark.parametrize("trace", [None, "", "no frame at all\n"])
def test_no_frame_no_source(trace: str | None) -> None:
    assert SourceLines(ROOT).line(trace) is None


def test_a_frame_without_code() -> None:
    trace = frame("a.py", "f") + frame("b.py", "g")
    assert SourceLines(ROOT).line(trace) == "b.py in g: "


def test_a_source_is_shown_where_it_changes() -> None:
    graph = fx.Graph()
    value = graph.placeholder("x")
    for code in (None, "a", "a", None, None, "b"):
        value = graph.call_function(torch.sin, (value,))
        if code is not None:
            value.meta["stack_trace"] = frame("/home/me/project/m.py", "f", code)
    graph.output(value)
    assert render(fx.GraphModule({}, graph), root=ROOT) == (
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        sin = torch.sin(x);  x = None\n"
        "\n"
        "        # file: m.py in f: a\n"
        "        sin_1 = torch.sin(sin);  sin = None\n"
        "        sin_2 = torch.sin(sin_1);  sin_1 = None\n"
        "\n"
        "        # file: none\n"
        "        sin_3 = torch.sin(sin_2);  sin_2 = None\n"
        "        sin_4 = torch.sin(sin_3);  sin_3 = None\n"
        "\n"
        "        # file: m.py in f: b\n"
        "        sin_5 = torch.sin(sin_4);  sin_4 = None\n"
        "        return sin_5\n"
    )


def test_line_numbers_do_not_matter() -> None:
    sources = SourceLines(ROOT)
    assert sources.line(frame("a.py", "f", "x", line=3)) == sources.line(
        frame("a.py", "f", "x", line=40)
    )


@pytest.mark.parametrize("kind", ["<listcomp>", "<dictcomp>", "<setcomp>"])
def test_a_comprehension_is_a_line_of_the_function_around_it(kind: str) -> None:
    # Until Python 3.11 it is a frame of its own.
    outer = frame("/home/me/project/m.py", "forward", "found = [")
    inner = frame("/home/me/project/m.py", kind, "table(row) for table, row in pairs")
    shown = "m.py in forward: table(row) for table, row in pairs"
    assert SourceLines(ROOT).line(outer + inner) == shown
    assert SourceLines(ROOT).line(outer + inner + inner) == shown
    assert SourceLines(ROOT).line(inner) == f"m.py in {kind}: table(row) for table, row in pairs"


def test_what_a_comprehension_calls_keeps_its_name() -> None:
    outer = frame("/home/me/project/m.py", "forward", "found = [f(x) for x in xs]")
    inner = frame("/home/me/project/m.py", "<listcomp>", "found = [f(x) for x in xs]")
    called = frame("/home/me/project/m.py", "f", "return x + 1")
    assert SourceLines(ROOT).line(outer + inner + called) == "m.py in f: return x + 1"
