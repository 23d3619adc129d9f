"""A test's runs in, plain data out that crosses to the process that writes the page.

Called where the test ran, and only with ``--fxregion-report``.  What is only text is taken as it
is; of tensors only counts leave here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_fxregion.capture.record import GraphRecord
from pytest_fxregion.readable.values import stable_text
from pytest_fxregion.regional import Region
from pytest_fxregion.report.page.histogram import histogram
from pytest_fxregion.report.page.listing import Labels, Piece, Stage, listing
from pytest_fxregion.report.page.region_graph import region_graph
from pytest_fxregion.report.terminal import bytes_text
from pytest_fxregion.run import RegionRun


def run_data(run: RegionRun, root: Path) -> dict[str, Any]:
    """Return what the page shows of a run.  Seconds are left out: they differ between equal runs.

    ``root`` is the folder that source paths are made relative to.
    """
    labels = Labels()
    figures = {key: value for key, value in run.summary().items() if key != "seconds"}
    graphs = [
        {"stages": [_stage(record, graph.forward, labels, root) for record in graph.stages()]}
        for graph in run.graphs
    ]
    return {
        "name": run.name,
        "figures": figures,
        "graphs": graphs,
        "labels": list(labels),
        "kernels": [
            {"name": kernel.name, "language": kernel.language, "source": kernel.stable_source}
            for kernel in run.kernels
        ],
        "machine_code": [
            {
                "kernel": code.kernel,
                "architecture": code.architecture,
                "configuration": code.configuration,
                "registers": code.registers,
                "spills": code.spill_stores + code.spill_loads,
                "shared_memory": code.shared_memory,
            }
            for code in run.machine_code
        ],
        "numbers": list(_numbers(run)),
        "sums": [str(accumulation) for accumulation in run.tracked.eager],
        "execution": list(run.execution.lines()),
        "notes": list(run.notes),
    }


def _stage(
    record: GraphRecord, forward: GraphRecord | None, labels: Labels, root: Path
) -> dict[str, Any]:
    saving = forward if forward is not None else record
    stage = Stage(
        name=record.stage,
        text=record.text,
        pieces=tuple(_piece(region, record, root) for region in record.regions),
        saved={v.name: _size(v.size) for v in saving.saved_for_backward},
        recomputed=frozenset(record.recomputed if record.stage == "backward" else ()),
    )
    found = listing(stage, labels)
    nodes = found["nodes"]
    if record.stage != "joint":
        found["drawing"] = region_graph(nodes["op"], nodes["inputs"], nodes["band"])
    found["programs"] = {
        name: {
            "kernels": [kernel.name for kernel in program.kernels],
            "operators": list(program.operators),
        }
        for name, program in sorted(record.programs.items())
    }
    # What a region costs in memory, and under no name what lies outside of all.
    found["saved_bytes"] = _by_name(record.saved_by_region)
    found["recomputed_bytes"] = _by_name(record.recomputed_by_region)
    return found


def _by_name(sizes: Mapping[str | None, int]) -> dict[str, int]:
    return {name or "": size for name, size in sizes.items() if size}


def _piece(region: Region, record: GraphRecord, root: Path) -> Piece:
    return Piece(
        name=region.name,
        kind=region.kind,
        body=record.region_texts.get(region.name, ""),
        configs=stable_text(dict(region.configs)) if region.configs else "",
        sources=tuple(_from_root(source, root) for source in region.sources),
        shared_with=region.shared_with,
    )


def _from_root(source: str, root: Path) -> str:
    path, colon, line = source.rpartition(":")
    inside = Path(path)
    for folder in (root, root.resolve()):
        if inside.is_relative_to(folder):
            return f"{inside.relative_to(folder).as_posix()}{colon}{line}"
    return f"{inside.name}{colon}{line}"


def _size(text: str) -> str:
    """Return a size in bytes as people read it; an expression in symbols stays one."""
    if not text.isdigit():
        return f"{text} B"
    return bytes_text(int(text))


def _numbers(run: RegionRun) -> Iterator[dict[str, Any]]:
    reference = {} if run.reference is None else run.reference.values
    for found in run.differences:
        yield {
            "name": found.name,
            "against": found.against,
            "error": found.error,
            "eager_error": found.eager_error,
            "allowed": found.allowed,
            "of_allowed": found.of_allowed,
            "ulps": found.ulps,
            "cosine": found.cosine,
            "where": list(found.where),
            "problem": found.problem,
            "histogram": histogram(
                run.eager.values.get(found.name),
                run.regional.values.get(found.name),
                reference.get(found.name),
                against=found.against,
            ),
        }
