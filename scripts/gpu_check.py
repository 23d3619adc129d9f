"""Run the same tests on a GPU and on the virtual device, and say where they differ.

    python scripts/gpu_check.py [--tests PATH ...] [--out FILE] [--device cuda|virtual]

Three runs: on the GPU against the committed snapshots; on the GPU and on the virtual device of the
same architecture, each recording graphs and kernels into a folder of its own.  The two folders are
compared section by section.  Writes one JSON with every test's result and prints a summary.  Exit
status: 0 if every test passes and every graph agrees, 1 if not, 2 if there is no GPU or no virtual
one like it.

``--device virtual`` puts the virtual device in the GPU's place.  It tests this script and nothing
else, and the JSON says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_fxregion.device import virtual, why_no_gpu
from pytest_fxregion.options import ALL_STAGES
from pytest_fxregion.snapshots.diff import describe
from pytest_fxregion.snapshots.document import Document, parse_document

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run, compare, write, print."""
    arguments = _arguments()
    if arguments.device == "cuda" and (missing := why_no_gpu()) is not None:
        print(f"gpu-check: {missing}; nothing was run", file=sys.stderr)
        return 2
    gpu = _gpu() if arguments.device == "cuda" else {"name": "none: virtual in its place"}
    arch = _architecture(gpu)
    if arch is None:
        print(
            f"gpu-check: no virtual GPU has the compute capability {gpu['capability']} of "
            f"{gpu['name']}; there are {', '.join(virtual.ARCHITECTURES)}",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "gpu"), Path(scratch, "virtual")
        committed = _pytest(arguments, arguments.device, arch, Path(scratch, "committed.xml"))
        _pytest(arguments, arguments.device, arch, Path(scratch, "gpu.xml"), record=here)
        _pytest(arguments, "virtual", arch, Path(scratch, "virtual.xml"), record=there)
        snapshots = _compare(_documents(here), _documents(there))
    report = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "torch": version("torch"),
        "gpu": gpu,
        "virtual": arch,
        "tests": committed,
        "snapshots": snapshots,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return _summarise(report, arguments.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--tests", nargs="+", default=["examples", "tests/regions"])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/gpu-check.json")
    parser.add_argument("--device", choices=("cuda", "virtual"), default="cuda")
    return parser.parse_args()


def _gpu() -> dict[str, Any]:
    """The GPU as torch sees it, asked in a process of its own."""
    program = (
        "import json, torch; p = torch.cuda.get_device_properties(0); "
        "print(json.dumps({'name': p.name, 'capability': f'{p.major}.{p.minor}', "
        "'cuda': torch.version.cuda}))"
    )
    asked = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return dict(json.loads(asked.stdout))


def _architecture(gpu: dict[str, Any]) -> str | None:
    """The virtual GPU that is this one, or the first of its compute capability, or None."""
    capability = gpu.get("capability")
    if capability is None:  # virtual in its place
        return "h100"
    alike = [
        arch
        for arch in virtual.ARCHITECTURES.values()
        if f"{arch.capability[0]}.{arch.capability[1]}" == capability
    ]
    same = [a.name for a in alike if a.product == gpu["name"]]
    return next(iter([*same, *(a.name for a in alike)]), None)


def _pytest(
    arguments: argparse.Namespace, device: str, arch: str, xml: Path, record: Path | None = None
) -> dict[str, str]:
    """Run the tests once; return each one's outcome."""
    command = [sys.executable, "-m", "pytest", *arguments.tests, "-q", f"--junitxml={xml}"]
    command += ["--fxregion", f"--fxregion-device={device}", f"--fxregion-arch={arch}"]
    if record is not None:
        command += [f"--fxregion-stages={','.join(ALL_STAGES)}", "--snapshot-update"]
        command += [f"--fxregion-snapshot-dir={record}"]
    print(f"== {' '.join(command[1:])}", flush=True)
    environment = {k: v for k, v in os.environ.items() if k != "CI"}
    ended = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if not xml.exists():
        raise SystemExit(f"gpu-check: pytest ended with {ended} and no results")
    return _outcomes(xml)


def _outcomes(xml: Path) -> dict[str, str]:
    """Each test's outcome, from a JUnit file."""
    outcomes = {}
    for case in ElementTree.parse(xml).iter("testcase"):
        problems = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname')}::{case.get('name')}"
        outcomes[name] = problems[0] if problems else "passed"
    return outcomes


def _documents(folder: Path) -> dict[str, Document]:
    return {
        str(file.relative_to(folder)): parse_document(file.read_text("utf-8"), source=file.name)
        for file in sorted(folder.rglob("*.fx.txt"))
    }


def _compare(here: dict[str, Document], there: dict[str, Document]) -> dict[str, Any]:
    """Compare two recorded folders, graphs and kernels apart."""
    found = {}
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            side = "GPU" if name in here else "virtual"
            found[name] = {"graphs": f"only the {side} run recorded it", "kernels": {}}
            continue
        kernels = {
            section.title: section == there[name].section(section.title)
            for section in here[name].sections
            if _is_kernel(section.title)
        }
        graphs = [_without_kernels(document) for document in (there[name], here[name])]
        same = graphs[0].sections == graphs[1].sections
        found[name] = {
            "graphs": "equal" if same else list(describe(*graphs).summary),
            "kernels": kernels,
        }
    return found


def _is_kernel(title: str) -> bool:
    return ": kernel " in title


def _without_kernels(document: Document) -> Document:
    kept = (section for section in document.sections if not _is_kernel(section.title))
    return Document(document.provenance, tuple(kept))


def _summarise(report: dict[str, Any], out: Path) -> int:
    passed = sum(outcome == "passed" for outcome in report["tests"].values())
    snapshots = report["snapshots"].values()
    equal = sum(snapshot["graphs"] == "equal" for snapshot in snapshots)
    kernels = [same for snapshot in snapshots for same in snapshot["kernels"].values()]
    print(
        f"gpu-check: torch {report['torch']}, {report['gpu']['name']}: "
        f"{passed} of {len(report['tests'])} tests pass against the committed snapshots; "
        f"graphs equal to virtual {report['virtual']}'s in {equal} of {len(snapshots)}; "
        f"{sum(kernels)} of {len(kernels)} kernels equal; written to {out}"
    )
    return 0 if passed == len(report["tests"]) and equal == len(snapshots) else 1


if __name__ == "__main__":
    sys.exit(main())
