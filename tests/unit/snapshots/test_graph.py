"""Reading a graph's text back into records of its nodes."""

from __future__ import annotations

from pytest_fxregion.snapshots.graph import Graph, Node, is_graph_text, parse_graphs
from tests.unit.snapshots.texts import BODY, FORWARD, JOINT


def nodes_of(text: str) -> dict[str, Node]:
    return {node.name: node for node in parse_graphs(text)[0].nodes}


def in_forward(
    *lines: str, parameters: str = 'x: "f32[2][1]cpu", w: "f32[2][1]cpu"'
) -> dict[str, Node]:
    body = "\n".join(f"        {line}" for line in lines)
    return nodes_of(
        f"class GraphModule(torch.nn.Module):\n    def forward(self, {parameters}):\n{body}\n"
    )


def test_each_part_of_a_node_is_read() -> None:
    mul = nodes_of(JOINT)["mul"]
    assert mul == Node(
        name="mul",
        op="call",
        target="torch.ops.aten.mul.Tensor",
        args="sin, primals_2",
        inputs=("sin", "primals_2"),
        literal="·, ·",
        type="f32[10][1]cuda:0",
        tags=(("region", "0"), ("ac_graph_id", "0"), ("recompute", "PREFER_RECOMPUTE")),
        source="model.py in block: h = h * w + 1",
    )


def test_frees_take_no_part() -> None:
    add = nodes_of(JOINT)["add"]
    assert (add.args, add.inputs, add.literal) == ("mul, 1", ("mul",), "·, 1")


def test_tags_of_placeholders_stand_above_the_first_node() -> None:
    nodes = nodes_of(JOINT)
    assert nodes["primals_2"].tags == (("recompute", "MUST_SAVE"),)
    assert nodes["sin"].tags == ()


def test_a_placeholder_named_as_a_tag_takes_no_tag_of_a_node() -> None:
    nodes = in_forward("# region: 0", "y = torch.sin(region)", parameters="region")
    assert nodes["region"].tags == ()
    assert nodes["y"].tags == (("region", "0"),)


def test_gradient_accumulation_is_a_tag_without_value() -> None:
    assert nodes_of(JOINT)["add_1"].tags == (("gradient accumulation", ""),)


def test_output_uses_what_it_returns() -> None:
    output = nodes_of(JOINT)["output"]
    assert (output.op, output.inputs) == ("output", ("cos", "add_1"))


def test_values_in_strings_keywords_and_attributes_are_no_inputs() -> None:
    nodes = in_forward(
        "dim = torch.sin(x)",
        "y = torch.ops.aten.sum.dim(dim, 'x, w', dim = w, dtype = torch.x, other = {'w': x})",
    )
    assert nodes["y"].inputs == ("dim", "w", "x")
    assert nodes["y"].literal == "·, 'x, w', dim = ·, dtype = torch.x, other = {'w': ·}"


def test_every_form_of_statement_is_read() -> None:
    nodes = in_forward(
        "pick = x[0]",
        "method = x.view(2, 1)",
        'constant: "f32[]" = self._tensor_constant0',
        "operator = x + w",
        "module = self.layers.a(x)",
        'w += x;  in_place: "f32[2][1]cpu" = w',
        "unused = torch.sin(x);  unused = None",
        "typed : torch.Tensor = torch.cos(x)",
    )
    assert {name: (node.op, node.target, node.inputs) for name, node in nodes.items()} == {
        "x": ("placeholder", "placeholder", ()),
        "w": ("placeholder", "placeholder", ()),
        "pick": ("call", "getitem", ("x",)),
        "method": ("call", ".view", ("x",)),
        "constant": ("get_attr", "self._tensor_constant0", ()),
        "operator": ("call", "· + ·", ("x", "w")),
        "module": ("call", "self.layers.a", ("x",)),
        "in_place": ("call", "· += ·", ("w", "x")),
        "unused": ("call", "torch.sin", ("x",)),
        "typed": ("call", "torch.cos", ("x",)),
    }
    assert nodes["constant"].type == "f32[]"
    assert nodes["in_place"].type == "f32[2][1]cpu"


def test_types_of_parameters_may_hold_commas_and_defaults_are_kept() -> None:
    nodes = in_forward("return (x,)", parameters='x: "f32[2, 3][3, 1]cpu", *rest, n: "Sym(s0)" = 3')
    assert nodes["x"].type == "f32[2, 3][3, 1]cpu"
    assert nodes["n"].type == "Sym(s0)"
    assert nodes["n"].args == "3"
    assert "rest" in nodes


def test_a_parameter_under_another_name_is_the_same_value() -> None:
    nodes = in_forward("x_1 = x", "y = torch.sin(x_1)")
    assert nodes["y"].inputs == ("x",)


def test_graphs_inside_are_read_with_their_path() -> None:
    text = "\n".join(
        [
            "class GraphModule(torch.nn.Module):",
            "    def forward(self, x):",
            "        true_graph_0 = self.true_graph_0",
            "        return (true_graph_0,)",
            "",
            "    class true_graph_0(torch.nn.Module):",
            "        def forward(self, x):",
            "            sin = torch.sin(x)",
            "            return (sin,)",
            "",
            "        class inner_0(torch.nn.Module):",
            "            def forward(self):",
            "                return ()",
            "",
            "    class false_graph_0(torch.nn.Module):",
            "        def forward(self, x):",
            "            return (x,)",
        ]
    )
    graphs = parse_graphs(text)
    assert [graph.path for graph in graphs] == [
        "GraphModule",
        "GraphModule.true_graph_0",
        "GraphModule.true_graph_0.inner_0",
        "GraphModule.false_graph_0",
    ]
    assert [node.name for node in graphs[1].nodes] == ["x", "sin", "output"]


def test_lines_that_are_not_understood_are_kept() -> None:
    graph = parse_graphs(
        "class GraphModule(torch.nn.Module):\n"
        '    torch.fx.wrap("f")\n'
        "    def forward(self):\n"
        "        # No stacktrace found\n"
        "        return ()\n"
    )[0]
    assert graph == Graph(
        "GraphModule",
        (Node("output", "output", "output", "()", (), "()"),),
        ('torch.fx.wrap("f")', "# No stacktrace found"),
    )


def test_any_text_can_be_read() -> None:
    for text in ("", "class", "class A(B):\n  x =", "def f(", "class A(B):\n# \n#\n    return"):
        parse_graphs(text)


def test_only_graph_text_is_taken_for_it() -> None:
    assert is_graph_text(FORWARD)
    assert is_graph_text(BODY)
    assert not is_graph_text('sin: "f32[10]"  40 B')
