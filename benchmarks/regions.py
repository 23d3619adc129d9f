"""What the region engine costs, against torch's regional pass in the same process.

    python benchmarks/regions.py                  # everything: seven minutes on two idle cores
    python benchmarks/regions.py scoop calls      # these parts only
    python benchmarks/regions.py --quick          # small sizes: about two minutes

Parts: ``scoop`` (plan, scoop and splice without compiling), ``pieces`` (how many), ``memory``,
``equal`` (1 and 32 equal layers, cold), ``distinct`` (different layers, cold), ``warm`` (the first
region of a process) and ``calls``.  Figures are medians of runs that take turns, of CPU time: the
process's own and, where a C++ compiler runs, its children's.  Only ``distinct`` is wall time, since
it is about what runs side by side.  They are printed and written to
``benchmarks/results/regions.json``; a part that is not run keeps its former figures.  Believe the
ratios: the times depend on the machine and on what else it does, for which its load is noted.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gc
import json
import logging
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch.fx.passes.regional_inductor import _create_inductor_marked_regions as torch_scoop
from torch.fx.passes.regional_inductor import regional_inductor as torch_regional_inductor
from torch.fx.traceback import annotate

from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion._torch.tracing import aot_autograd
from pytest_fxregion.regional import regional_inductor
from pytest_fxregion.regional.annotation import AnnotationReader
from pytest_fxregion.regional.membership import members
from pytest_fxregion.regional.planning import plan
from pytest_fxregion.regional.scoop import scoop
from pytest_fxregion.regional.splice import splice
from pytest_fxregion.regional.values import GraphValues

RESULT = Path(__file__).parent / "results" / "regions.json"
aten = torch.ops.aten
UNARY = (aten.sin.default, aten.tanh.default, aten.neg.default, aten.cos.default)
BINARY = (aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor)
with FakeTensorMode():
    VALUE = torch.empty(4)

Regional = Callable[..., Any]
Rows = Iterator[dict[str, Any]]


# --- graphs ---


class Grower:
    """A graph that grows by annotated or plain nodes, every one of the same shape."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.count = 0

    def input(self) -> fx.Node:
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        node.meta["val"] = VALUE
        return node

    def op(self, *args: fx.Node, region: object = None) -> fx.Node:
        operators = UNARY if len(args) == 1 else BINARY
        node = self.graph.call_function(operators[self.count % len(operators)], args)
        self.count += 1
        node.meta["val"] = VALUE
        if region is not None:
            node.meta["custom"] = {"compile_with_inductor": {"inductor_region": region}}
        return node

    def module(self, *results: fx.Node) -> fx.GraphModule:
        self.graph.output(results)
        return fx.GraphModule({}, self.graph)


def half(nodes: int) -> fx.GraphModule:
    """A chain whose middle half is one region."""
    g = Grower()
    x = g.input()
    for i in range(nodes):
        x = g.op(x, region="r" if nodes // 4 <= i < 3 * nodes // 4 else None)
    return g.module(x)


def alternating(nodes: int, *, ids: bool = False) -> fx.GraphModule:
    """A chain of runs of ten nodes, every other run annotated; ``ids``: with an id each."""
    g = Grower()
    x = g.input()
    for i in range(nodes):
        run = i // 10
        x = g.op(x, region=(run if ids else "r") if run % 2 == 0 else None)
    return g.module(x)


def deep(nodes: int, *, ids: bool = False) -> fx.GraphModule:
    """Residual layers of 40 nodes; a block of 20, a weight's transform among them, is annotated."""
    g = Grower()
    layers = max(1, nodes // 40)
    weights = [g.input() for _ in range(layers)]
    x = g.input()
    for layer, weight in enumerate(weights):
        region = layer if ids else "r"
        h = x
        for _ in range(18):
            h = g.op(h)
        h = g.op(h, g.op(weight, region=region), region=region)
        for _ in range(18):
            h = g.op(h, region=region)
        x = g.op(g.op(x, h))
    return g.module(x)


def wide(nodes: int, *, ids: bool = False) -> fx.GraphModule:
    """32 parallel chains of runs of ten nodes, out of step, joined by a tree of additions."""
    g = Grower()
    x = g.input()
    heads = []
    for chain in range(32):
        h = x
        for i in range(nodes // 32):
            run = (i + chain * 3) // 10
            h = g.op(h, region=((chain, run) if ids else "r") if run % 2 == 0 else None)
        heads.append(h)
    while len(heads) > 1:
        pairs = zip(heads[::2], heads[1::2], strict=True)
        heads = [g.op(one, other) for one, other in pairs]
    return g.module(*heads)


def irregular(nodes: int, *, ids: bool = False) -> fx.GraphModule:
    """A random graph, annotated in random runs; ``ids``: with one of ``nodes / 50`` ids."""
    r = random.Random(0)
    g = Grower()
    made = [g.input(), g.input()]
    region: object = None
    for _ in range(nodes):
        if r.random() < 0.1:
            name = r.randrange(max(2, nodes // 50)) if ids else "r"
            region = name if r.random() < 0.5 else None
        near = made[max(0, len(made) - 1 - int(r.expovariate(0.2)))]
        sources = (near, r.choice(made[-50:])) if r.random() < 0.5 else (near,)
        made.append(g.op(*sources, region=region))
    return g.module(*(node for node in made if not node.users))


# Those on which torch's pass is quick come first.
FAMILIES: dict[str, Callable[[int], fx.GraphModule]] = {
    "half in one region": half,
    "wide": wide,
    "deep": deep,
    "alternating": alternating,
    "wide, an id each": lambda n: wide(n, ids=True),
    "deep, an id each": lambda n: deep(n, ids=True),
    "random": irregular,
    "random, many ids": lambda n: irregular(n, ids=True),
    "alternating, an id each": lambda n: alternating(n, ids=True),
}


# --- measuring ---


def cpu_time(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def our_scoop(gm: fx.GraphModule) -> dict[str, Any]:
    """Plan, scoop and splice ``gm``; seconds of each, and the number of pieces."""
    with collector_off():  # as the engine does
        start = time.process_time()
        nodes = list(gm.graph.nodes)
        annotations = members(gm, AnnotationReader())
        read = time.process_time()
        planned = plan(nodes, annotations)
        partitioned = time.process_time()
        pieces = scoop(gm, nodes, planned.pieces, GraphValues(gm, nodes))
        names = [f"inductor_region_{k}" for k in range(len(pieces))]
        calls: list[Any] = [_stand_in(name) for name in names]
        splice(gm, nodes, planned.schedule, pieces, calls, names, replaced={})
        end = time.process_time()
    return {
        "plan": partitioned - read,
        "read and plan": partitioned - start,
        "scoop": end - start,
        "pieces": len(pieces),
    }


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _stand_in(name: str) -> Callable[..., None]:
    def region(*_: object) -> None: ...

    region.__name__ = region.__qualname__ = name
    return region


def torchs_scoop(gm: fx.GraphModule) -> dict[str, Any]:
    """Torch's pass on ``gm``; ``pieces`` is None where it raises."""
    start = time.process_time()
    try:
        scooped = torch_scoop(gm)
        pieces: int | None = len(scooped.graph.find_nodes(op="call_module"))
    except Exception:
        pieces = None
    return {"scoop": time.process_time() - start, "pieces": pieces}


def scoop_row(name: str, small: int, large: int) -> dict[str, Any]:
    """Ours three times at both sizes and torch's once at the small one, in this process."""
    make = FAMILIES[name]
    ours = {n: [our_scoop(make(n)) for _ in range(3)] for n in (small, large)}
    median = {
        n: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for n, runs in ours.items()
    }
    theirs = torchs_scoop(make(small))
    return {
        "graph": name,
        "nodes": large,
        "plan, s": median[large]["plan"],
        "read and plan, s": median[large]["read and plan"],
        "scoop, s": median[large]["scoop"],
        "growth": median[large]["scoop"] / median[small]["scoop"],
        "small": small,
        "scoop small, s": median[small]["scoop"],
        "torch small, s": theirs["scoop"],
        "times faster": theirs["scoop"] / median[small]["scoop"],
        "create nodes small, s": statistics.median(creation(make(small)) for _ in range(3)),
        "pieces": median[small]["pieces"],
        "torch's pieces": theirs["pieces"],
    }


def creation(gm: fx.GraphModule) -> float:
    """Seconds that fx takes to create as many nodes, which any pass has to: the floor."""
    graph = fx.Graph()
    new: dict[fx.Node, fx.Node] = {}

    def create() -> None:
        for node in gm.graph.nodes:
            if node.op != "output":
                args = tuple(new[source] for source in node.all_input_nodes)
                new[node] = graph.create_node(node.op, node.target, args, {}, node.name)

    with collector_off():
        return cpu_time(create)


def measure_scoop(quick: bool) -> Rows:
    small, large = (1_000, 5_000) if quick else (5_000, 50_000)
    yield from in_children(scoop_row, [(name, small, large) for name in FAMILIES])


def in_children(work: Callable[..., dict[str, Any]], cases: Iterable[tuple[Any, ...]]) -> Rows:
    """Do each case in a process of its own, as many at a time as there are cores."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context, max_tasks_per_child=1) as children:
        yield from (case.result() for case in [children.submit(work, *case) for case in cases])


def measure_pieces(quick: bool) -> Rows:
    """Pieces on the families at sizes where torch's pass is quick."""
    for name, make in FAMILIES.items():
        for nodes in (100, 300) if quick else (100, 300, 1_000):
            yield {
                "graph": name,
                "nodes": nodes,
                "pieces": our_scoop(make(nodes))["pieces"],
                "torch's pieces": torchs_scoop(make(nodes))["pieces"],
            }


def memory_row(name: str, nodes: int) -> dict[str, Any]:
    tracemalloc.start()
    gm = FAMILIES[name](nodes)
    gc.collect()
    own = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    our_scoop(gm)
    peak = tracemalloc.get_traced_memory()[1]
    return {
        "graph": name,
        "nodes": nodes,
        "graph, MB": own / 1e6,
        "peak beside it, MB": (peak - own) / 1e6,
        "ratio": (peak - own) / own,
    }


def measure_memory(quick: bool) -> Rows:
    """Peak of what scooping allocates beside the graph, and the graph's own size."""
    nodes = 5_000 if quick else 50_000
    yield from in_children(memory_row, [(name, nodes) for name in FAMILIES])


def layers(x: torch.Tensor, *weights: torch.Tensor, equal: bool) -> torch.Tensor:
    for i, w in enumerate(weights):
        h = x @ w
        with annotate({"compile_with_inductor": {"inductor_region": i}}):
            h = torch.nn.functional.gelu(h) * (2 if equal else i + 2) + 1
            h = torch.softmax(h - h.mean(-1, keepdim=True), -1)
        x = x + h
    return x


@dataclass
class Took:
    """Seconds of a regional pass: by the clock, of CPU, and of CPU when all is compiled already."""

    wall: float
    cpu: float
    again: float


def cpu_with_children() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def compile_layers(implementation: Regional, count: int, *, equal: bool, width: int) -> Took:
    """Run the regional pass on ``count`` layers; ``width`` keeps kernels distinct."""
    took: list[Took] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        unchanged = copy.deepcopy(gm)  # torch's pass changes what it is given
        gc.collect()  # or dynamo's garbage falls to whom it happens to fall: 0.3 s
        wall, cpu = time.perf_counter(), cpu_with_children()
        compiled = implementation(gm, *inputs)
        wall, cpu = time.perf_counter() - wall, cpu_with_children() - cpu
        again = cpu_time(lambda: implementation(unchanged, *inputs)) if count > 1 else 0.0
        took.append(Took(wall, cpu, again))
        return compiled

    def fn(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        return layers(x, *weights, equal=equal)

    torch._dynamo.reset()
    inputs = [torch.randn(8, width), *(torch.randn(width, width) for _ in range(count))]
    with torch.no_grad():
        torch.compile(fn, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)(*inputs)
    return took[0]


IMPLEMENTATIONS: Mapping[str, Regional] = {
    "ours": regional_inductor,
    "torch": torch_regional_inductor,
}


def turns(counts: Sequence[int], *, equal: bool, rounds: int) -> dict[tuple[str, int], list[Took]]:
    """Cold compiles: each has a width that no other has, so that nothing is in a cache."""
    widths = iter(range(32, 10_000))
    for implementation in IMPLEMENTATIONS.values():  # the C++ compiler's headers, imports
        compile_layers(implementation, 1, equal=equal, width=next(widths))
    runs: dict[tuple[str, int], list[Took]] = {}
    for _ in range(rounds):
        for count in counts:
            for name, implementation in IMPLEMENTATIONS.items():
                took = compile_layers(implementation, count, equal=equal, width=next(widths))
                runs.setdefault((name, count), []).append(took)
    return runs


def measure_equal(quick: bool) -> Rows:
    """One thread, so that the C++ compiler is a child of this process, whose CPU time counts."""
    counts = (1, 4) if quick else (1, 32)
    with cold_cache(), torch._inductor.config.patch(compile_threads=1):
        runs = turns(counts, equal=True, rounds=3 if quick else 5)
    cpu = {case: statistics.median(took.cpu for took in many) for case, many in runs.items()}
    for count in counts:
        again = statistics.median(took.again for took in runs["ours", count])
        yield {
            "layers": count,
            "ours, s": cpu["ours", count],
            "torch, s": cpu["torch", count],
            "times faster": cpu["torch", count] / cpu["ours", count],
            "against 1 layer": cpu["ours", count] / cpu["ours", 1],
            "an equal region, ms": 1e3 * again / count,
        }


def measure_distinct(quick: bool) -> Rows:
    with cold_cache():
        runs = turns((4,), equal=False, rounds=1 if quick else 3)
    ours, theirs = (statistics.median(t.wall for t in runs[name, 4]) for name in IMPLEMENTATIONS)
    yield {"layers": 4, "ours, s": ours, "torch, s": theirs, "times faster": theirs / ours}


@contextmanager
def cold_cache() -> Iterator[None]:
    """Inductor's caches in a new folder."""
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
            if before is not None:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def measure_warm(quick: bool) -> Rows:
    """The first region of a new process whose caches are warm."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        runs: dict[str, list[Took]] = {name: [] for name in IMPLEMENTATIONS}
        for round_ in range(3 if quick else 6):
            for name in IMPLEMENTATIONS:
                command = [sys.executable, __file__, "--first-region", name]
                output = subprocess.run(
                    command, env=environment, check=True, capture_output=True, text=True
                ).stdout
                if round_:  # the first fills the cache
                    runs[name].append(Took(**json.loads(output.splitlines()[-1])))
    for what in ("cpu", "wall"):
        ours, theirs = (
            statistics.median(getattr(took, what) for took in runs[name])
            for name in IMPLEMENTATIONS
        )
        yield {"time": what, "ours, s": ours, "torch, s": theirs, "times faster": theirs / ours}


def _boxed(gm: Any, *inputs: torch.Tensor) -> object:
    return gm(list(inputs))


def measure_calls(quick: bool) -> Rows:
    """A region of five operators on ten elements, one operator outside."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": 0}):
            h = (torch.tanh(x * y + 1) - y) * x
        return torch.sin(h)

    torch.set_num_threads(1)
    x, y = torch.randn(10), torch.randn(10)
    modules: dict[str, Any] = {}
    for name in IMPLEMENTATIONS:

        def compiler(gm: fx.GraphModule, inputs: Any, name: str = name) -> Any:
            modules[name] = IMPLEMENTATIONS[name](gm, *inputs)
            return modules[name]

        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(fn, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)(x, y)
    regions = {
        name: next(
            node.target
            for node in gm.graph.nodes
            if node.op == "call_function" and node.args[:1] and node.name != "sin"
        )
        for name, gm in modules.items()
    }
    cases: dict[tuple[str, str], Callable[[], object]] = {}
    for name in IMPLEMENTATIONS:
        cases["a region call", name] = functools.partial(regions[name], x, y)
        cases["the region's graph module", name] = functools.partial(_boxed, modules[name], x, y)
    runs: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    count = 500 if quick else 3_000
    with torch.no_grad():
        for _ in range(15):
            for case, call in cases.items():

                def repeat(call: Callable[[], object] = call) -> None:
                    for _ in range(count):
                        call()

                runs[case].append(1e6 * cpu_time(repeat) / count)
    for what in ("a region call", "the region's graph module"):
        ours, theirs = (statistics.median(runs[what, name]) for name in IMPLEMENTATIONS)
        yield {"call": what, "ours, us": ours, "torch, us": theirs, "times faster": theirs / ours}


# --- output ---

PARTS: Mapping[str, Callable[[bool], Rows]] = {
    "calls": measure_calls,
    "pieces": measure_pieces,
    "memory": measure_memory,
    "warm": measure_warm,
    "equal": measure_equal,
    "distinct": measure_distinct,
    "scoop": measure_scoop,
}


def print_row(values: Iterable[Any]) -> None:
    print(" | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in values), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--first-region", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    if options.first_region:
        implementation = IMPLEMENTATIONS[options.first_region]
        print(json.dumps(asdict(compile_layers(implementation, 1, equal=True, width=48))))
        return
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    kept["machine"] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    for part in options.parts or PARTS:
        print(f"\n{part}")
        kept.setdefault("load before", {})[part] = os.getloadavg()[0]
        rows: list[dict[str, Any]] = []
        for row in PARTS[part](options.quick):
            if not rows:
                print_row(row)
            print_row(row.values())
            rows.append(row)
            if not options.quick:
                RESULT.parent.mkdir(exist_ok=True)
                RESULT.write_text(json.dumps({**kept, part: rows}, indent=1) + "\n")
        kept[part] = rows


if __name__ == "__main__":
    main()
