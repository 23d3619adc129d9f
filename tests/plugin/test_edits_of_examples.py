"""Edits of the example models: the failure's words alone say what the compiler does differently.

The edited files are run in one process, each against the snapshot of what it was edited from.  The
first three are in docs/reviewing.md, whose texts are held against what is printed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.plugin.pytest_process import SOURCE_TREE, Finished, Project, once

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason="the words are of the graphs that torch 2.13 makes; others make other ones",
)

MIDDLE = "examples/test_annotated_middle.py"
CHECKPOINT = "examples/test_checkpoint.py"
GATE = "test_checkpointed_gate[non_reentrant]"
SUMS = "examples/test_gradient_accumulation.py"
TRANSFORMER = "tests/regions/test_transformer_block.py"

OPERATION_BETWEEN = """\
        h = h * w
    h = h.exp()
    with annotate({"compile_with_inductor": 0}):
        h = h + 1
"""
SAVES_MATMULS = """\
context = functools.partial(
            create_selective_checkpoint_contexts, [torch.ops.aten.mm.default]
        )
        return checkpoint(gate, scaled, w, use_reentrant=False, context_fn=context).sum()"""


@dataclass(frozen=True)
class Edit:
    """What is changed in a file, the test that this concerns, and beginnings of lines that say it.

    ``place`` is the folder, beside the file's own, that the edited file is put in.
    """

    file: str
    test: str
    changes: tuple[tuple[str, str], ...]
    said: tuple[str, ...]
    place: str = ""

    @property
    def path(self) -> Path:
        """Where the edited file is."""
        file = Path(self.file)
        return file.parent / self.place / file.name

    @property
    def text(self) -> str:
        """What is in it."""
        text = (SOURCE_TREE / self.file).read_text(encoding="utf-8")
        for before, after in self.changes:
            assert before in text, before
            text = text.replace(before, after)
        return text

    @property
    def snapshot(self) -> Path:
        """Where its snapshot is."""
        return _snapshot_folder(self.path) / f"{self.test}.fx.txt"

    @property
    def stored(self) -> str:
        """The snapshot from before the edit, if the file had been at its place all along."""
        stored = SOURCE_TREE / _snapshot_folder(Path(self.file)) / f"{self.test}.fx.txt"
        text = stored.read_text(encoding="utf-8")
        return text.replace(f"file: {self.file} ", f"file: {self.path.as_posix()} ")


def _snapshot_folder(file: Path) -> Path:
    parts = file.parts[1:] if file.parts[0] == "tests" else file.parts
    return Path("snapshots", *parts).with_suffix("")


DOCUMENTED = {
    "an operation left its region": Edit(
        MIDDLE,
        "test_block",
        (("        h = h * w + 1\n", "        h = h * w\n    h = h + 1\n"),),
        (
            "`add` in joint, forward, backward left region 0",
            "`add` in forward left inductor_region_0",
        ),
    ),
    "less is saved": Edit(
        TRANSFORMER,
        "test_training",
        (
            (
                "if operation in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):",
                "if operation is torch.ops.aten.mm.default:",
            ),
        ),
        (
            "`addmm`, `addmm_1`, `addmm_2`, `addmm_3` in joint, forward: checkpoint tag MUST_SAVE",
            "in all -2.8 KiB saved for the backward by forward",
            "2 nodes more are recomputed in backward: `addmm_2`, `addmm`",
        ),
    ),
    "one more use": Edit(
        SUMS,
        "test_sums_of_gradients",
        (("return waves @ w", "return waves @ w + x.sum()"),),
        (
            "aten.sum.default added: `sum_1`, `sum_2` in joint",
            "gradient accumulation `add_5` in joint, backward appeared: f32[3, 4][4, 1]cuda:0 = ",
        ),
    ),
}

EDITS = {
    **DOCUMENTED,
    "one use less": Edit(
        SUMS,
        "test_sums_of_gradients",
        (("h.sin() + h.cos() + h.exp()", "h.sin() + h.cos()"),),
        (
            "aten.exp.default removed: `exp` in joint and `exp` of inductor_region_0 in forward",
            "1 value less is saved for the backward by forward: -48 B (`detach`)",
            "gradient accumulation `add_2` in joint, backward vanished: f32[3, 4][4, 1]cuda:0 = ",
        ),
        "one_use_less",
    ),
    "another operation": Edit(
        MIDDLE,
        "test_block",
        (("h = torch.sin(x)", "h = torch.cos(x)"),),
        (
            "`cos` in forward: aten.sin.default → aten.cos.default",
            "aten.neg.default added: `neg` in joint, backward",
        ),
        "another_operation",
    ),
    "another size": Edit(
        MIDDLE,
        "test_block",
        (("randn(10", "randn(12"),),
        (
            "13 nodes in joint, 6 in forward, 11 in backward: shape [10] → [12] (`primals_1`, ",
            "4 values saved for the backward by forward have another type: +32 B (`primals_1`, ",
        ),
        "another_size",
    ),
    "no annotation": Edit(
        MIDDLE,
        "test_block",
        (('with annotate({"compile_with_inductor": 0}):', "if True:"),),
        (
            "region 0 vanished from joint, forward, backward",
            "inductor_region_0 vanished from forward, backward",
        ),
        "no_annotation",
    ),
    "another region": Edit(
        MIDDLE,
        "test_block",
        (('"compile_with_inductor": 0', '"compile_with_inductor": {"inductor_region": "mid"}'),),
        ("region 0 in joint, forward, backward is called 'mid' now",),
        "another_region",
    ),
    "a region in two pieces": Edit(
        MIDDLE,
        "test_block",
        (("        h = h * w + 1\n", OPERATION_BETWEEN),),
        (
            "aten.exp.default added: `exp` in joint, forward",
            "inductor_region_0 in forward was split into inductor_region_0, inductor_region_1",
            "1 value more is saved for the backward by forward: +40 B (`detach`)",
        ),
        "two_pieces",
    ),
    "no checkpoint": Edit(
        CHECKPOINT,
        GATE,
        (
            (
                "return checkpoint(gate, scaled, w, use_reentrant=use_reentrant)",
                "return gate(scaled, w)",
            ),
        ),
        (
            "`mm`, `sigmoid`, `detach` in joint and `mm`, `sigmoid` in forward: no longer "
            "checkpointed (was PREFER_RECOMPUTE)",
            "1 value more is saved for the backward by forward: +256 B (`detach`)",
            "3 nodes less are recomputed in backward: `mm`, `sigmoid`, `detach_2`",
        ),
        "no_checkpoint",
    ),
    "matmuls are saved": Edit(
        CHECKPOINT,
        GATE,
        (
            (
                "return checkpoint(gate, scaled, w, use_reentrant=use_reentrant).sum()",
                SAVES_MATMULS,
            ),
            ("import checkpoint\n", "import checkpoint, create_selective_checkpoint_contexts\n"),
            ("import pytest\n", "import functools\n\nimport pytest\n"),
        ),
        (
            "`mm` in joint, forward: checkpoint tag PREFER_RECOMPUTE → MUST_SAVE",
            "1 value more is saved for the backward by forward: +256 B (`mm`)",
            "1 node less is recomputed in backward: `mm`",
        ),
        "saves_matmuls",
    ),
    "another number": Edit(
        CHECKPOINT,
        GATE,
        (("x * 2 + 1", "x * 3 + 1"),),
        (
            "`mul` in joint and `mul` of inductor_region_0 in forward: arguments primals_1, 2 → "
            "primals_1, 3",
            "`mul_1` in joint, backward: arguments mm_2, 2 → mm_2, 3",
        ),
        "another_number",
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    def run_all() -> Finished:
        project = Project(tmp_path_factory.mktemp("edits"))
        for edit in EDITS.values():
            project.write({str(edit.path): edit.text, str(edit.snapshot): edit.stored})
        # As files, for beside one another they have the same names.
        return project.run(
            "--fxregion",
            "--fxregion-device=virtual",
            "--import-mode=importlib",
            *(f"{edit.path}::{edit.test}" for edit in EDITS.values()),
        )

    shared = tmp_path_factory.getbasetemp()
    return once(shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared, "edits", run_all)


def failure(run: Finished, edit: Edit) -> list[str]:
    """The lines from the words of a failure to the command that accepts it."""
    first = run.lines.index(
        f"{edit.snapshot.as_posix()} differs from what was compiled on virtual h100 (no GPU):"
    )
    accepting = f"pytest {edit.path}::{edit.test}"
    last = next(
        number
        for number, line in enumerate(run.lines)
        if number > first and line.replace("'", "").startswith(accepting)
    )
    return [line.rstrip() for line in run.lines[first : last + 1]]


@pytest.mark.parametrize("name", EDITS)
def test_the_words_say_what_the_compiler_does_differently(run: Finished, name: str) -> None:
    lines = failure(run, EDITS[name])
    words = lines[1 : lines.index("")]
    for said in EDITS[name].said:
        assert [line for line in words if line.startswith(said)], "\n".join(words)
    assert run.code == 1


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documentation_shows_what_is_printed(run: Finished, name: str) -> None:
    docs = (SOURCE_TREE / "docs/reviewing.md").read_text(encoding="utf-8")
    edit = EDITS[name]
    (shown,) = (
        block.splitlines()
        for block in re.findall(r"```text\n(.*?)```", docs, re.DOTALL)
        if block.startswith(edit.snapshot.as_posix())
    )
    printed = [
        line.replace(" --fxregion-device=virtual", "") for line in failure(run, edit)
    ]  # the docs leave out what is the default where no GPU is
    words = shown.index("") + 1
    assert shown[:words] == printed[:words]
    left_out = next(
        k for k, line in enumerate(shown) if line.endswith("more lines of the text diff]")
    )
    assert shown[words:left_out] == printed[words:left_out]
    assert shown[left_out + 1 :] == printed[-len(shown) + left_out + 1 :]
