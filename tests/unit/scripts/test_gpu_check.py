"""What the GPU check makes of two recordings and of pytest's results; no GPU, no run of pytest."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.snapshots.document import Document, Section, write_document
from scripts import gpu_check

FORWARD = Section("forward", 'def forward(self, x: "f32[4][1]cuda:0"):\n    return x')
BACKWARD = Section("backward", 'def forward(self, t: "f32[4][1]cuda:0"):\n    return t')
H200 = {"name": "NVIDIA H200", "capability": "9.0", "cuda": "13.0"}


def document(device: str, *sections: Section) -> Document:
    return Document(f"torch 2.13.0 | {device}", sections)


def kernel(text: str, name: str = "triton_poi_sin_0") -> Section:
    return Section(f"forward: kernel {name}", text)


@pytest.mark.parametrize(
    ("gpu", "architecture"),
    [
        (H200, "h200"),
        ({"name": "NVIDIA H100 PCIe", "capability": "9.0"}, "h100"),
        ({"name": "NVIDIA A100-SXM4-80GB", "capability": "8.0"}, "a100"),
        ({"name": "NVIDIA L40S", "capability": "8.9"}, "l4"),
        ({"name": "NVIDIA B200", "capability": "10.0"}, "b200"),
        ({"name": "Tesla T4", "capability": "7.5"}, None),
        ({"name": "none: virtual in its place"}, "h100"),
    ],
)
def test_the_virtual_gpu_is_the_same_one_or_one_of_the_same_capability(
    gpu: dict[str, Any], architecture: str | None
) -> None:
    assert gpu_check._architecture(gpu) == architecture


def test_graphs_are_compared_and_kernels_apart_from_them() -> None:
    here = {
        "same": document("cuda", FORWARD, kernel("a")),
        "kernels": document("cuda", FORWARD, kernel("a"), kernel("b", "triton_red_sum_1")),
        "graphs": document("cuda", FORWARD, BACKWARD),
        "here": document("cuda", FORWARD),
    }
    there = {
        "same": document("virtual h200 (no GPU)", FORWARD, kernel("a")),
        "kernels": document("virtual h200 (no GPU)", FORWARD, kernel("other")),
        "graphs": document("virtual h200 (no GPU)", FORWARD),
        "there": document("virtual h200 (no GPU)", FORWARD),
    }
    found = gpu_check._compare(here, there)
    assert found["same"] == {
        "graphs": "equal",
        "kernels": {"forward: kernel triton_poi_sin_0": True},
    }
    assert found["kernels"] == {
        "graphs": "equal",
        "kernels": {
            "forward: kernel triton_poi_sin_0": False,
            "forward: kernel triton_red_sum_1": False,
        },
    }
    assert found["graphs"]["graphs"] != "equal"
    assert any("backward" in line for line in found["graphs"]["graphs"])
    assert found["here"]["graphs"] == "only the GPU run recorded it"
    assert found["there"]["graphs"] == "only the virtual run recorded it"


def test_outcomes_are_read_from_pytests_results(tmp_path: Path) -> None:
    xml = tmp_path / "results.xml"
    xml.write_text(
        '<testsuites><testsuite><testcase classname="examples.test_a" name="test_good"/>'
        '<testcase classname="examples.test_a" name="test_bad"><properties/><failure/></testcase>'
        '<testcase classname="examples.test_a" name="test_no"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert gpu_check._outcomes(xml) == {
        "examples.test_a::test_good": "passed",
        "examples.test_a::test_bad": "failure",
        "examples.test_a::test_no": "skipped",
    }


def _run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_gpu: Section, *arguments: str
) -> tuple[int, list[tuple[str, str]], dict[str, Any]]:
    """Run the whole check; pytest is replaced by what writes what a run would write."""
    runs: list[tuple[str, str]] = []

    def pytest_run(
        asked: Any, device: str, arch: str, xml: Path, record: Path | None = None
    ) -> dict[str, str]:
        runs.append((device, arch))
        if record is not None:
            record.mkdir()
            sections = [on_gpu if device == "cuda" else FORWARD, kernel("a")]
            text = write_document(document(device, *sections))
            (record / "test_a.fx.txt").write_text(text, encoding="utf-8")
        return {"examples.test_a::test_good": "passed"}

    monkeypatch.setattr(gpu_check, "_pytest", pytest_run)
    monkeypatch.setattr(gpu_check, "_gpu", lambda: H200)
    monkeypatch.setattr(gpu_check, "why_no_gpu", lambda: None)
    out = tmp_path / "results" / "gpu-check.json"
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", f"--out={out}", *arguments])
    status = gpu_check.main()
    return status, runs, json.loads(out.read_text())


def test_a_gpu_that_agrees_gives_a_report_and_status_zero(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, runs, report = _run(monkeypatch, tmp_path, FORWARD)
    assert status == 0
    # Against the committed snapshots; then one recording each.
    assert runs == [("cuda", "h200"), ("cuda", "h200"), ("virtual", "h200")]
    assert report["gpu"] == H200
    assert report["virtual"] == "h200"
    assert report["tests"] == {"examples.test_a::test_good": "passed"}
    assert report["snapshots"]["test_a.fx.txt"]["graphs"] == "equal"
    said = capsys.readouterr().out
    assert "1 of 1 tests pass" in said
    assert "graphs equal to virtual h200's in 1 of 1; 1 of 1 kernels equal" in said


def test_another_graph_on_the_gpu_is_in_the_report_and_status_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, _, report = _run(monkeypatch, tmp_path, BACKWARD)
    assert status == 1
    assert report["snapshots"]["test_a.fx.txt"]["graphs"] != "equal"
    assert report["snapshots"]["test_a.fx.txt"]["kernels"] == {
        "forward: kernel triton_poi_sin_0": True
    }


def test_the_virtual_device_in_the_gpus_place_is_named_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, runs, report = _run(monkeypatch, tmp_path, FORWARD, "--device=virtual")
    assert status == 0
    assert runs == [("virtual", "h100")] * 3
    assert report["gpu"] == {"name": "none: virtual in its place"}


def test_without_a_gpu_nothing_runs_and_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gpu-check.json"
    monkeypatch.setattr(gpu_check, "why_no_gpu", lambda: "no GPU answers to the CUDA driver")
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", f"--out={out}"])
    assert gpu_check.main() == 2
    assert "no GPU answers to the CUDA driver; nothing was run" in capsys.readouterr().err
    assert not out.exists()


def test_a_gpu_that_no_virtual_one_is_like_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "why_no_gpu", lambda: None)
    monkeypatch.setattr(gpu_check, "_gpu", lambda: {"name": "Tesla T4", "capability": "7.5"})
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", f"--out={tmp_path / 'x.json'}"])
    assert gpu_check.main() == 2
    assert "compute capability 7.5 of Tesla T4" in capsys.readouterr().err
