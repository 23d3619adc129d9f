"""How long a graph's text takes, against torch's own ``print_readable`` in the same process.

    python benchmarks/readable.py

Both write the same graph in turn, several times; the median CPU time of each and the ratio are
printed and written to ``benchmarks/results/readable.json``.  Believe the ratios: the times depend
on the machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion.readable import render

RESULT = Path(__file__).parent / "results" / "readable.json"
OPERATORS = (
    torch.ops.aten.mul.Tensor,
    torch.ops.aten.add.Tensor,
    torch.ops.aten.sin.default,
    torch.ops.aten.view.default,
    torch.ops.aten.mm.default,
)
TRACE = '  File "/project/model.py", line {0}, in forward\n    h = self.layer_{0}(h)\n    ^^^^^\n'


def chain(nodes: int, *, tagged: bool) -> fx.GraphModule:
    """A graph of ``nodes`` nodes as AOTAutograd makes it; if ``tagged``, half of them have tags."""
    graph = fx.Graph()
    with FakeTensorMode():
        values = [torch.empty(8, size, 16) for size in range(1, 33)]
    latest = [graph.placeholder(f"primals_{index}") for index in range(1, 9)]
    for node in latest:
        node.meta["val"] = values[0]
    for index in range(nodes - len(latest) - 1):
        operator = OPERATORS[index % len(OPERATORS)]
        if operator is torch.ops.aten.sin.default:
            node = graph.call_function(operator, (latest[-1],))
        elif operator is torch.ops.aten.view.default:
            node = graph.call_function(operator, (latest[-1], [8, index % 32 + 1, 16]))
        else:
            node = graph.call_function(operator, (latest[-1], latest[index % 8]))
        node.meta["val"] = values[index % 32]
        node.meta["stack_trace"] = TRACE.format(index // 7)
        if tagged and index % 2:
            node.meta["custom"] = {"compile_with_inductor": {"inductor_region": index // 100}}
            node.meta["ac_graph_id"] = index // 1000
            node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
        latest = [*latest[1:], node]
    graph.output(tuple(latest[-3:]))
    return fx.GraphModule({}, graph)


def torchs_text(gm: fx.GraphModule) -> str:
    return gm.print_readable(print_output=False, include_stride=True, include_device=True)


def cpu_seconds(write: Callable[[fx.GraphModule], str], gm: fx.GraphModule) -> float:
    gc.collect()
    start = time.process_time()
    write(gm)
    return time.process_time() - start


def compare(gm: fx.GraphModule, repeats: int) -> dict[str, float]:
    ours, torchs = [], []
    for _ in range(repeats):
        ours.append(cpu_seconds(render, gm))
        torchs.append(cpu_seconds(torchs_text, gm))
    own, other = statistics.median(ours), statistics.median(torchs)
    return {
        "fxregion_cpu_seconds": round(own, 3),
        "torch_cpu_seconds": round(other, 3),
        "times_as_fast_as_torch": round(other / own, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    result = {
        "nodes": arguments.nodes,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "graphs": {
            name: compare(chain(arguments.nodes, tagged=tagged), arguments.repeats)
            for name, tagged in (("without tags", False), ("half of the nodes tagged", True))
        },
    }
    text = json.dumps(result, indent=2) + "\n"
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
