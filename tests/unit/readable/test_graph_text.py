"""The whole text of small graphs, byte by byte: the same on every version of torch."""

from __future__ import annotations

import ast
import enum
import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.fx.graph import CodeGen
from torch.utils.checkpoint import CheckpointPolicy

from pytest_fxregion._torch.graphs import LazyGraphModule
from pytest_fxregion.readable import print_readable, render

aten = torch.ops.aten


def graph_module(graph: fx.Graph, **modules: nn.Module) -> fx.GraphModule:
    """A graph module that does not write torch's code, which these graphs may have none of."""
    gm = LazyGraphModule({}, fx.Graph())
    gm.graph = graph
    for name, module in modules.items():
        gm.add_module(name, module)
    assert isinstance(gm, fx.GraphModule)
    return gm


def body_of(gm: fx.GraphModule) -> list[str]:
    """The lines below ``def forward``, which must be valid Python."""
    text = render(gm)
    ast.parse(text)
    return [line.strip() for line in text.splitlines()[2:]]


def line_of_call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(target, (x, *args), kwargs, name="y")
    graph.output(y)
    return next(line for line in body_of(graph_module(graph)) if line.startswith("y ="))


def test_a_graph_with_everything() -> None:
    graph = fx.Graph()
    x, w = graph.placeholder("primals_1"), graph.placeholder("primals_2")
    h = graph.call_function(aten.sin.default, (x,), name="sin")
    h2 = graph.call_function(aten.mul.Tensor, (h, w), name="mul")
    total = graph.call_function(aten.add.Tensor, (h2, w), {"alpha": 2}, name="add")
    graph.output((total, h2, None))
    source = '  File "/root/examples/test_block.py", line {}, in block\n    {}\n'
    for node in (x, w, h, h2, total):
        node.meta["val"] = torch.empty(10, device="meta")
    for node, line, code in (
        (h, 5, "h = torch.sin(x)"),
        (h2, 7, "h = h * w + 1"),
        (total, 7, "h = h * w + 1"),
    ):
        node.meta["stack_trace"] = source.format(line, code)
    w.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    h2.meta.update(ac_graph_id=9, recompute=CheckpointPolicy.PREFER_RECOMPUTE)
    for node in (h2, total):
        node.meta["custom"] = {"compile_with_inductor": 0}
    total.meta["is_gradient_acc"] = True

    text = render(graph_module(graph))
    ast.parse(text)
    assert text == (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, primals_1: "f32[10][1]meta", primals_2: "f32[10][1]meta"):\n'
        "        # primals_2: recompute: MUST_SAVE\n"
        "\n"
        "        # file: test_block.py in block: h = torch.sin(x)\n"
        '        sin: "f32[10][1]meta" = torch.ops.aten.sin.default(primals_1);  primals_1 = None\n'
        "\n"
        "        # file: test_block.py in block: h = h * w + 1\n"
        "        # region: 0\n"
        "        # ac_graph_id: 0 - PREFER_RECOMPUTE\n"
        '        mul: "f32[10][1]meta" = torch.ops.aten.mul.Tensor(sin, primals_2);  sin = None\n'
        "        # region: 0\n"
        "        # gradient accumulation (is_gradient_acc)\n"
        '        add: "f32[10][1]meta" = torch.ops.aten.add.Tensor(mul, primals_2, alpha = 2);'
        "  primals_2 = None\n"
        "        return (add, mul, None)\n"
    )


def test_a_call_of_a_region_goes_by_its_name() -> None:
    def compiled(*args: object) -> None: ...

    compiled.__name__ = "inductor_region_0"
    compiled.__module__ = "pytest_fxregion.regional.splice"
    compiled.fxregion_region = object()  # type: ignore[attr-defined]
    assert line_of_call(compiled, 1) == "y = inductor_region_0(x, 1);  x = None"


class OneList(CodeGen):
    """A calling convention that takes all inputs in one list, as AOTAutograd's does."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        names = ", ".join(name.split(":")[0] for name in free_vars)
        return f"def forward(self, inputs){maybe_return_annotation}:\n    {names}, = inputs"


def test_a_graph_with_its_own_calling_convention_shows_the_types_all_the_same() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x.meta["val"] = torch.empty(2)
    graph.output(y)
    graph.set_codegen(OneList())
    text = render(graph_module(graph))
    ast.parse(text)
    assert text == (
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, inputs):\n"
        "        x, y, = inputs\n"
        "        # x: value: f32[2][1]cpu\n"
        "        return y\n"
    )


def test_several_graph_modules_nest() -> None:
    inner = fx.Graph()
    inner.output((inner.placeholder("a"),))
    graph = fx.Graph()
    x = graph.placeholder("x")
    taken = graph.get_attr("true_graph")
    graph.output(graph.call_function(torch.ops.higher_order.cond, (x, taken, taken, ())))
    middle = graph_module(graph, true_graph=graph_module(inner))
    outer = fx.Graph()
    outer.output(outer.placeholder("x"))
    text = render(graph_module(outer, middle=middle, other=graph_module(inner)), name="Outer")
    ast.parse(text)
    assert [line for line in text.splitlines() if "class" in line or not line] == [
        "class Outer(torch.nn.Module):",
        "",
        "    class middle(torch.nn.Module):",
        "",
        "        class true_graph(torch.nn.Module):",
        "",
        "    class other(torch.nn.Module):",
    ]


def test_a_graph_module_inside_a_plain_module_is_shown() -> None:
    inner = fx.Graph()
    inner.output((inner.placeholder("a"),))
    container = nn.Sequential(graph_module(inner))
    graph = fx.Graph()
    body = graph.get_attr("blocks.0")
    graph.output(body)
    text = render(graph_module(graph, blocks=container))
    ast.parse(text)
    assert 'getattr(self.blocks, "0")' in text
    assert "    class blocks_0(torch.nn.Module):" in text


def test_one_body_under_two_names_is_written_once() -> None:
    inner = fx.Graph()
    inner.output((inner.placeholder("a"),))
    body = graph_module(inner)
    graph = fx.Graph()
    graph.output((graph.get_attr("first"), graph.get_attr("second")))
    assert body_of(graph_module(graph, first=body, second=body)) == [
        "first = self.first",
        "# value: first",
        "second = self.second",
        "return (first, second)",
        "",
        "class first(torch.nn.Module):",
        "def forward(self, a):",
        "return (a,)",
    ]


def test_constants_show_their_content() -> None:
    graph = fx.Graph()
    names = ("constant", "weight", "absent", "holder.inner", "number")
    graph.output(tuple(graph.get_attr(name) for name in names))
    holder = nn.Module()
    gm = graph_module(graph, holder=holder)
    gm.register_buffer("constant", torch.zeros(2))
    gm.register_parameter("weight", nn.Parameter(torch.zeros(2)))
    holder.register_buffer("inner", torch.zeros(2, dtype=torch.int64))
    object.__setattr__(gm, "number", {2, 1})
    assert body_of(gm)[:-1] == [
        "# value: f32[2][1]cpu sha256:703ffecb2179",
        "constant = self.constant",
        "weight = self.weight",
        "absent = self.absent",
        "# value: i64[2][1]cpu sha256:47932c8af051",
        "holder_inner = self.holder.inner",
        "# value: {1, 2}",
        "number = self.number",
    ]


def test_tensors_among_the_arguments_show_their_content() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(torch.relu, (torch.zeros(2),)))
    assert body_of(graph_module(graph))[0] == "# value: f32[2][1]cpu sha256:703ffecb2179"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class WithExpression:
    def __init__(self, text: str) -> None:
        self.text = text

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return self.text, {}


class Plain:
    class Inner:
        pass


class Spoken:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def fresh_function() -> None: ...


HERE = __name__.replace(".", "_")


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (Plain(), f"{__name__}.Plain(...)"),
        (Plain.Inner(), f"{__name__}.Plain.Inner(...)"),
        (Spoken("Spoken(1)"), "Spoken(1)"),
        (Spoken("a\nb"), f"{__name__}.Spoken(...)"),
        (Spoken("(1\n)"), f"{__name__}.Spoken(...)"),
        (Spoken("1 # one"), f"{__name__}.Spoken(...)"),
        *(
            (Spoken(text), f"{__name__}.Spoken(...)")
            for text in ("", ")#", "a,", "a, b", "*a", "a=1")
        ),
        *((Spoken(text), f"{__name__}.Spoken(...)") for text in ("a)(b", "a:=1", "x for x in y")),
        (torch.Generator(), "torch._C.Generator(...)"),
        (fresh_function, f"{HERE}_fresh_function"),
        (lambda: None, f"{HERE}_lambda_"),
        (int, "int"),
        ({"b", "a"}, "{'a', 'b'}"),
        ({"b": {2, 1}}, "{'b': {1, 2}}"),
        (CheckpointPolicy.MUST_SAVE, "torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE"),
        (torch.memory_format, "torch.memory_format"),
        (Rights.READ, "Rights.READ"),
        (Rights(0), "Rights(0)"),
        (WithExpression("Made(1)"), "Made(1)"),
        (WithExpression("<Made>"), f"{__name__}.WithExpression(...)"),
    ],
)
def test_arguments_without_an_expression_stay_valid_and_stable(argument: object, text: str) -> None:
    assert line_of_call(torch.relu, argument) == f"y = torch.relu(x, {text});  x = None"


def test_a_function_is_named_once_and_two_of_one_name_differ() -> None:
    def other() -> None: ...

    other.__name__ = "fresh_function"
    graph = fx.Graph()
    x = graph.placeholder("x")
    for function in (fresh_function, other, fresh_function):
        x = graph.call_function(function, (x,), name="y")
    graph.output(x)
    called = [line.split(" = ")[1].split("(")[0] for line in body_of(graph_module(graph))[:3]]
    assert called == [f"{HERE}_fresh_function", f"{HERE}_fresh_function_1", called[0]]


def test_an_operator_and_a_keyword_that_are_words_of_python() -> None:
    assert line_of_call(getattr(aten.random_, "from"), 0, 10) == (
        'y = getattr(torch.ops.aten.random_, "from")(x, 0, 10);  x = None'
    )
    assert line_of_call(aten.random_, **{"from": 1, "to": 2}) == (
        "y = torch.ops.aten.random_(x, **{'from': 1}, to = 2);  x = None"
    )


class Callable_:
    def __call__(self, x: object) -> object:
        return x


def test_a_callable_without_a_name_goes_by_its_class() -> None:
    assert line_of_call(Callable_()) == f"y = {HERE}_Callable_(x);  x = None"


@pytest.mark.parametrize("name", ["class", "0", "a b", "print", "torch", "self", "<lambda>", "é"])
def test_names_that_are_none(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    y.name = name  # past the graph's own check
    graph.output(y)
    ast.parse(render(graph_module(graph), name=name))


@pytest.mark.parametrize("name", ["class", "0", "a b", "print", "*args", "**lambda", "é"])
def test_parameters_whose_names_are_none(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.target = name
    graph.output(x)
    assert body_of(graph_module(graph))[-1] == "return x"


def test_attributes_whose_names_are_none() -> None:
    graph = fx.Graph()
    graph.output(tuple(graph.get_attr(name) for name in ("a.0", "class", 'q"q', "b\\", "n\n")))
    assert [line.split(" = ")[1] for line in body_of(graph_module(graph))[:-1]] == [
        'getattr(self.a, "0")',
        'getattr(self, "class")',
        "getattr(self, 'q\"q')",
        "getattr(self, 'b\\\\')",
        "getattr(self, 'n\\n')",
    ]


def test_two_nodes_of_one_name_differ() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first, second = (graph.call_function(torch.relu, (x,)) for _ in range(2))
    first.name = second.name = "twin"
    graph.output((first, second))
    assert body_of(graph_module(graph))[-1] == "return (twin, twin_1)"


def test_declared_unions_are_written_as_they_were() -> None:
    """Versions of torch differ here: 2.14 writes ``typing_Union[int,str]``."""
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=int | str)
    graph.output(x, type_expr=dict[str, int] | None)
    head = render(graph_module(graph)).splitlines()[1].strip()
    assert head == "def forward(self, x : int|str) -> dict[str,int]|NoneType:"


@pytest.mark.parametrize("outputs", [None, (), [], 3, (None, 1.5)])
def test_outputs_without_nodes(outputs: Any) -> None:
    graph = fx.Graph()
    graph.output(outputs)
    assert body_of(graph_module(graph)) == [f"return {outputs}"]


def test_an_empty_graph() -> None:
    assert body_of(graph_module(fx.Graph())) == ["pass"]


def test_a_graph_of_tagged_inputs_alone() -> None:
    graph = fx.Graph()
    graph.placeholder("x").meta["custom"] = {"k": 1}
    assert body_of(graph_module(graph)) == ["# x: k: 1", "pass"]


def test_indices_into_tables_of_the_process_count_from_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._higher_order_ops import triton_kernel_wrap

    table = triton_kernel_wrap.kernel_side_table
    autotuned = types.SimpleNamespace(fn=types.SimpleNamespace(fn=fresh_function))
    monkeypatch.setattr(table, "id_to_kernel", {41: fresh_function, 17: autotuned})
    monkeypatch.setattr(table, "constant_args", {5: {}, 6: {"BLOCK": 16}})
    graph = fx.Graph()
    x = graph.placeholder("x")
    for kernel, constants in ((41, 5), (17, 6), (41, 6)):
        graph.call_function(
            triton_kernel_wrap.triton_kernel_wrapper_mutation,
            kwargs={"kernel_idx": kernel, "constant_args_idx": constants, "kwargs": {"x": x}},
            name="y",
        )
    graph.output(None)
    lines = body_of(graph_module(graph))
    assert [line for line in lines if line.startswith("#")] == [
        f"# kernel: {__name__}.fresh_function",
        f"# kernel: {__name__}.fresh_function",
        "# constant_args: {'BLOCK': 16}",
        f"# kernel: {__name__}.fresh_function",
        "# constant_args: {'BLOCK': 16}",
    ]
    assert re.findall(r"kernel_idx = (\d), constant_args_idx = (\d)", "\n".join(lines)) == [
        ("0", "0"),
        ("1", "1"),
        ("0", "1"),
    ]


def test_colours_are_the_only_difference() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta.update(val=torch.empty(2), custom={"k": '"quoted"'})
    y = graph.call_function(torch.relu, (x,))
    graph.output(y)
    gm = graph_module(graph)
    plain, colored = render(gm), render(gm, colored=True)
    assert "\033[" not in plain
    assert re.sub(r"\033\[\d+m", "", colored) == plain
    assert '\033[34m"f32[2][1]cpu"\033[0m' in colored
    assert "\033[32m# x: k: '\"quoted\"'\033[0m" in colored
    assert ";  \033[2mx = None\033[0m" in colored


def test_print_readable_prints_what_it_returns(capsys: pytest.CaptureFixture[str]) -> None:
    graph = fx.Graph()
    graph.output(graph.placeholder("x"))
    gm = fx.GraphModule({}, graph, class_name="Named")
    text = print_readable(gm)
    assert text.startswith("class Named(torch.nn.Module):\n")
    assert capsys.readouterr().out == text + "\n"
    print_readable(gm, print_output=False)
    assert capsys.readouterr().out == ""


def test_rendering_leaves_the_graph_alone() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["custom"] = {"b": 1, "a": 2}
    graph.output(x)
    gm = graph_module(graph)
    before = (str(graph), dict(x.meta), list(x.meta["custom"]))
    assert render(gm) == render(gm)
    assert (str(graph), dict(x.meta), list(x.meta["custom"])) == before
