"""What a listing shows of a stage, from the texts of its graph and of its regions' bodies."""

from __future__ import annotations

from typing import Any

from pytest_fxregion.report.page.listing import Labels, Piece, Stage, listing
from tests.unit.snapshots.texts import BODY, FORWARD, JOINT


def nodes_of(stage: Stage) -> dict[str, dict[str, Any]]:
    """Return the nodes of a listing by name, each with what its columns and tables say."""
    found = listing(stage, Labels())
    columns = found["nodes"]
    names = columns["name"]
    assert len({len(column) for column in columns.values()}) == 1
    return {
        name: {
            "op": columns["op"][at],
            "args": columns["args"][at],
            "inputs": [names[source] for source in columns["inputs"][at]],
            "type": found["types"][columns["type"][at]],
            "chips": [text for _, text, _ in found["chips"][columns["chips"][at]]],
            "source": found["sources"][columns["source"][at]],
            "band": found["bands"][columns["band"][at]] if columns["band"][at] >= 0 else None,
        }
        for at, name in enumerate(names)
    }


FORWARD_STAGE = Stage(
    "forward",
    FORWARD,
    pieces=(Piece("inductor_region_0", "forward", BODY, sources=("model.py:7",)),),
    saved={"primals_2": "40 B", "sin": "40 B", "add": "40 B"},
)


def test_the_body_of_a_region_stands_in_the_place_of_its_call() -> None:
    nodes = nodes_of(FORWARD_STAGE)
    assert list(nodes) == [
        "primals_1",
        "primals_2",
        "sin",
        "inductor_region_0/mul",
        "add",
        "cos",
        "output",
    ]
    assert nodes["inductor_region_0/mul"]["inputs"] == ["sin", "primals_2"]
    assert nodes["cos"]["inputs"] == ["add"]


def test_nodes_of_a_region_are_in_its_band_and_others_in_none() -> None:
    nodes = nodes_of(FORWARD_STAGE)
    banded = [name for name, node in nodes.items() if node["band"] is not None]
    assert banded == ["inductor_region_0/mul", "add"]
    band = nodes["add"]["band"]
    assert (band["piece"], band["region"], band["kind"]) == ("inductor_region_0", "0", "forward")
    assert band["sources"] == ["model.py:7"]


def test_nodes_of_a_joint_graph_are_banded_by_their_annotation() -> None:
    nodes = nodes_of(Stage("joint", JOINT))
    assert nodes["mul"]["band"]["region"] == "0"
    assert nodes["mul"]["band"]["piece"] == ""
    assert nodes["cos"]["band"] is None


def test_an_annotated_node_outside_of_every_compiled_region_has_no_band() -> None:
    assert nodes_of(Stage("forward", BODY))["mul"]["band"] is None


def test_chips_say_checkpointing_sums_and_what_is_saved() -> None:
    joint = nodes_of(Stage("joint", JOINT, saved={"sin": "40 B"}))
    assert joint["mul"]["chips"] == ["AC 0 PREFER_RECOMPUTE"]
    assert joint["primals_2"]["chips"] == ["AC MUST_SAVE"]
    assert joint["add_1"]["chips"] == ["gradient sum"]
    assert joint["sin"]["chips"] == ["saved 40 B"]
    assert nodes_of(FORWARD_STAGE)["add"]["chips"] == ["saved 40 B"]


def test_saved_values_are_the_backwards_inputs_and_not_operations_of_the_same_name() -> None:
    backward = FORWARD.replace("primals_1", "sin_1")
    found = listing(
        Stage("backward", backward, saved={"primals_2": "40 B", "sin": "40 B"}), Labels()
    )
    assert [entry["name"] for entry in found["saved"]] == ["primals_2"]


def test_a_generators_state_comes_in_under_another_name() -> None:
    text = FORWARD.replace("primals_2", "rng_state_output_0")
    found = listing(
        Stage("backward", text, saved={"primals_1": "40 B", "getitem_7": "16 B"}), Labels()
    )
    assert [(entry["name"], found["nodes"]["name"][entry["node"]]) for entry in found["saved"]] == [
        ("primals_1", "primals_1"),
        ("getitem_7", "rng_state_output_0"),
    ]


def test_two_names_of_one_result_of_a_region_are_both_saved() -> None:
    body = BODY.replace("return (add,)", "return (add, add)")
    text = FORWARD.replace(
        '        add: "f32[10][1]cuda:0" = inductor_region_0(sin, primals_2)',
        "        inductor_region_0 = inductor_region_0(sin, primals_2)\n"
        '        add: "f32[10][1]cuda:0" = inductor_region_0[0]\n'
        '        again: "f32[10][1]cuda:0" = inductor_region_0[1];  inductor_region_0 = None',
    )
    piece = Piece("inductor_region_0", "forward", body)
    found = listing(
        Stage("forward", text, (piece,), saved={"add": "40 B", "again": "40 B"}), Labels()
    )
    assert [entry["name"] for entry in found["saved"]] == ["add", "again"]
    assert found["saved"][0]["node"] == found["saved"][1]["node"]


def test_operations_of_a_recomputed_region_and_those_named_are_recomputed() -> None:
    piece = Piece("inductor_region_0", "recompute", BODY)
    nodes = nodes_of(Stage("backward", FORWARD, (piece,), recomputed=frozenset({"sin"})))
    again = [name for name, node in nodes.items() if "recomputed" in node["chips"]]
    assert again == ["sin", "inductor_region_0/mul", "add"]


def test_other_annotations_are_chips_of_their_own() -> None:
    text = JOINT.replace("        cos:", "        # stream: 3\n        cos:")
    nodes = nodes_of(Stage("joint", text))
    assert nodes["cos"]["chips"] == ["stream: 3"]


def test_arguments_have_a_hole_for_each_value() -> None:
    nodes = nodes_of(Stage("joint", JOINT))
    assert nodes["add"]["args"] == "·, 1"
    assert nodes["add"]["inputs"] == ["mul"]
    assert nodes["output"]["args"] == "(·, ·)"


def test_a_string_with_the_mark_of_a_hole_leaves_the_arguments_as_text() -> None:
    text = JOINT.replace("add.Tensor(mul, 1)", "add.Tensor(mul, '·')")
    nodes = nodes_of(Stage("joint", text))
    assert nodes["add"]["args"] == "mul, '·'"
    assert nodes["add"]["inputs"] == ["mul"]


def test_one_label_has_one_colour_in_every_stage() -> None:
    labels = Labels()
    joint = listing(Stage("joint", JOINT.replace("region: 0", "region: 'mlp'", 1)), labels)
    forward = listing(FORWARD_STAGE, labels)
    assert list(labels) == ["'mlp'", "0"]
    colours = {band["region"]: band["colour"] for band in (*joint["bands"], *forward["bands"])}
    assert colours == {"'mlp'": 0, "0": 1}


def test_a_call_that_does_not_fit_its_body_stays_and_is_banded() -> None:
    piece = Piece("inductor_region_0", "forward", BODY.replace(', arg1: "f32[10][1]cuda:0"', ""))
    nodes = nodes_of(Stage("forward", FORWARD, (piece,)))
    assert "inductor_region_0/mul" not in nodes
    assert nodes["add"]["band"]["piece"] == "inductor_region_0"


def test_subgraphs_follow_their_graph_and_keep_their_own_names() -> None:
    inner = BODY.replace("class GraphModule", "class body_0")
    indented = "\n".join(f"    {line}" for line in inner.split("\n"))
    found = listing(Stage("joint", f"{JOINT}\n\n{indented}"), Labels())
    assert found["graphs"] == ["", "body_0"]
    first = found["nodes"]["graph"].index(1)
    assert found["nodes"]["name"][first] == "arg0"
    assert all(at >= first for sources in found["nodes"]["inputs"][first:] for at in sources)
