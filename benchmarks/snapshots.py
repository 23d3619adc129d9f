"""How long two large snapshots take to compare: ``python benchmarks/snapshots.py [NODES]``.

Prints CPU seconds for parsing, matching and the whole report of two documents of one graph each,
equal but for what the row says.  Needs no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from time import process_time

from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, Section, parse_document, write_document

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


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    spread = frozenset(range(100, nodes, max(nodes // 100, 1)))
    rows: dict[str, dict[str, object]] = {
        "equal": {},
        "renumbered": {"first": 1},
        "one node less": {"skip": frozenset({nodes // 2})},
        "one node less, renumbered": {"skip": frozenset({nodes // 2}), "first": 1},
        "100 nodes less, renumbered": {"skip": spread, "first": 1},
        "100 operations, renumbered": {"other": spread, "first": 1},
        "all tags": {"tag": lambda k: "PREFER_SAVE"},
    }
    print(f"{nodes} nodes; CPU seconds")
    for name, changes in rows.items():
        read, report, summary = seconds(nodes, **changes)
        print(f"{name:28} read {read:5.2f}  report {report:6.2f}  {len(summary):3} lines")
        for line in summary[:2]:
            print(f"    {line[:110]}")


if __name__ == "__main__":
    main()
