"""Graph texts as ``readable`` writes them, and edits of them."""

# ruff: noqa: E501 - so are the lines of graphs

from __future__ import annotations

from pytest_fxregion.snapshots.document import Document, Section

JOINT = """\
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[10][1]cuda:0", primals_2: "f32[10][1]cuda:0", tangents_1: "f32[10][1]cuda:0"):
        # primals_2: recompute: MUST_SAVE

        # file: model.py in block: h = torch.sin(x)
        sin: "f32[10][1]cuda:0" = torch.ops.aten.sin.default(primals_1)

        # file: model.py in block: h = h * w + 1
        # region: 0
        # ac_graph_id: 0 - PREFER_RECOMPUTE
        mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(sin, primals_2)
        # region: 0
        add: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(mul, 1);  mul = None

        # file: model.py in block: return torch.cos(h)
        cos: "f32[10][1]cuda:0" = torch.ops.aten.cos.default(add)
        mul_1: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(tangents_1, add);  tangents_1 = add = None
        # gradient accumulation (is_gradient_acc)
        add_1: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(mul_1, sin);  mul_1 = sin = None
        return (cos, add_1)"""

FORWARD = """\
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[10][1]cuda:0", primals_2: "f32[10][1]cuda:0"):
        # file: model.py in block: h = torch.sin(x)
        sin: "f32[10][1]cuda:0" = torch.ops.aten.sin.default(primals_1)

        # file: model.py in block: h = h * w + 1
        # region: 0
        add: "f32[10][1]cuda:0" = inductor_region_0(sin, primals_2)

        # file: model.py in block: return torch.cos(h)
        cos: "f32[10][1]cuda:0" = torch.ops.aten.cos.default(add)
        return (cos, primals_2, sin, add)"""

BODY = """\
class GraphModule(torch.nn.Module):
    def forward(self, arg0: "f32[10][1]cuda:0", arg1: "f32[10][1]cuda:0"):
        # file: model.py in block: h = h * w + 1
        # region: 0
        mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(arg0, arg1);  arg0 = arg1 = None
        # region: 0
        add: "f32[10][1]cuda:0" = torch.ops.aten.add.Tensor(mul, 1);  mul = None
        return (add,)"""

SAVED = """\
primals_2: "f32[10][1]cuda:0"  40 B
sin: "f32[10][1]cuda:0"  40 B
add: "f32[10][1]cuda:0"  40 B"""

BLOCK = Document(
    "torch 2.13.0 | cuda",
    (
        Section("joint", JOINT),
        Section("forward", FORWARD),
        Section("forward: saved for backward", SAVED),
        Section("forward: inductor_region_0", BODY),
    ),
)


def edited(document: Document, edits: dict[str, tuple[tuple[str, str], ...]]) -> Document:
    """Return the document with texts replaced, by title of the section; each must be there."""
    sections = []
    for section in document.sections:
        text = section.text
        for before, after in edits.get(section.title, ()):
            assert before in text, before
            text = text.replace(before, after)
        sections.append(Section(section.title, text))
    return Document(document.provenance, tuple(sections))
