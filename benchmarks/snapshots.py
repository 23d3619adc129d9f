"""How long snapshots take to compare.  Needs no torch.

    python benchmarks/snapshots.py

Two documents of one graph of 50,000 nodes each, equal but for what the row says: CPU seconds for
reading both and for the whole report.  Then two folders of 1,000 files of 100 nodes each, as
``python -m pytest_fxregion compare`` reads and compares them.  Both are printed and written to
``benchmarks/results/snapshots.json``.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from pytest_fxregion.review.folders import compare_folders, read_folder
from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, Section, parse_document, write_document

RESULT = Path(__file__).parent / "results" / "snapshots.json"
FILE_NODES = 100
OPS = ("sin", "mul", "add", "mm", "relu", "exp", "sub", "cos")
LAYER = 40


def graph_text(
    nodes: int,
    *,
    first: int = 0,
    skip: frozenset[int] = frozenset(),
    other: frozenset[int] = frozenset(),
    tag: Callable[[int], str] = lambda k: "MUST_SAVE" if k % 7 else "PREFER_RECOMPUTE",
) -> str:
    """Return the text of a graph of equal layers with residual inputs.

    ``first`` shifts every number in a name; nodes of ``skip`` are left out, those of ``other`` do
    another operation.
    """
    rng = Random(0)
    names = ["primals_1", "primals_2"]
    lines = [
        "class GraphModule(torch.nn.Module):",
        '    def forward(self, primals_1: "f32[64, 64][64, 1]cpu", primals_2: "f32[64][1]cpu"):',
    ]
    layer = [(rng.choice(OPS), rng.randint(1, 6), rng.randint(1, 12)) for _ in range(LAYER)]
    for k in range(nodes):
        if k % LAYER == 0:
            lines.append(f"        # file: model.py in layer: y = block(x, {k // LAYER % 5})")
        op, near, far = layer[k % LAYER]
        inputs = [names[-min(near, len(names))], names[-min(far, len(names))]]
        if op in {"sin", "relu", "exp", "cos"}:
            inputs.pop()
        if k in skip:
            names.append(inputs[0])
            continue
        name = f"{op}_{k + first}"
        target = "tanh" if k in other else op
        if k % 3 == 0:
            lines.append(f"        # ac_graph_id: {k // LAYER} - {tag(k)}")
        if k % LAYER < 10:
            lines.append("        # region: 0")
        call = f"torch.ops.aten.{target}.default({', '.join(inputs)})"
        lines.append(f'        {name}: "f32[64, 64][64, 1]cuda:0" = {call}')
        names.append(name)
    lines.append(f"        return ({names[-1]},)")
    return "\n".join(lines)


def seconds(nodes: int, **changes: object) -> tuple[float, float, tuple[str, ...]]:
    """Return CPU seconds for reading both files and for the report, and the report's summary."""
    texts = [
        write_document(Document("", (Section("joint", text),)))
        for text in (graph_text(nodes), graph_text(nodes, **changes))  # type: ignore[arg-type]
    ]
    start = process_time()
    old, new = (parse_document(text, source="benchmark") for text in texts)
    read = process_time() - start
    start = process_time()
    report = describe(old, new)
    return read, process_time() - start, report.summary


def folder_seconds(files: int, **changes: object) -> tuple[float, float, int]:
    """Return CPU seconds for reading two folders and for comparing, and how many files differ."""
    with TemporaryDirectory() as root:
        folders = Path(root, "old"), Path(root, "new")
        for folder, given in zip(folders, ({}, changes), strict=True):
            for number in range(files):
                text = graph_text(FILE_NODES, **given)  # type: ignore[arg-type]
                file = folder / f"test_{number // 20}" / f"test_model[{number}].fx.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(write_document(Document("", (Section("joint", text),))))
        start = process_time()
        old, new = map(read_folder, folders)
        read = process_time() - start
        start = process_time()
        found = compare_folders(old, new)
        return read, process_time() - start, len(found.changed) + len(found.renumbered)


def rows_of(nodes: int) -> dict[str, Mapping[str, object]]:
    """Return what is different in each row."""
    spread = frozenset(range(100, nodes, max(nodes // 100, 1)))
    return {
        "equal": {},
        "renumbered": {"first": 1},
        "one node less": {"skip": frozenset({nodes // 2})},
        "one node less, renumbered": {"skip": frozenset({nodes // 2}), "first": 1},
        "100 nodes less, renumbered": {"skip": spread, "first": 1},
        "100 operations, renumbered": {"other": spread, "first": 1},
        "all tags": {"tag": lambda k: "PREFER_SAVE"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="time the comparison of snapshots")
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--files", type=int, default=1_000)
    arguments = parser.parse_args()
    graphs: dict[str, dict[str, float]] = {}
    print(f"two graphs of {arguments.nodes} nodes; CPU seconds")
    for name, changes in rows_of(arguments.nodes).items():
        read, report, summary = seconds(arguments.nodes, **changes)
        graphs[name] = {"read": round(read, 2), "report": round(report, 2)}
        print(f"{name:28} read {read:5.2f}  report {report:6.2f}  {len(summary):3} lines")
        for line in summary[:2]:
            print(f"    {line[:110]}")
    folders: dict[str, dict[str, float]] = {}
    print(f"two folders of {arguments.files} files of {FILE_NODES} nodes; CPU seconds")
    for name, changes in rows_of(FILE_NODES).items():
        if name.startswith("100 "):
            continue  # as many as a whole file has
        read, report, different = folder_seconds(arguments.files, **changes)
        folders[name] = {"read": round(read, 2), "compare": round(report, 2)}
        print(f"{name:28} read {read:5.2f}  compare {report:5.2f}  {different} differ")
    result = {
        "python": platform.python_version(),
        "nodes": arguments.nodes,
        "two graphs, CPU seconds": graphs,
        "files": arguments.files,
        "nodes in a file": FILE_NODES,
        "two folders, CPU seconds": folders,
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
