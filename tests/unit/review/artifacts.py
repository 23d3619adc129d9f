"""A checkout and what CI left behind, written by hand: two folders side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pytest_fxregion.report.machine import (
    FILE,
    Candidate,
    MachineReport,
    TestEntry,
    fingerprint,
    write_report,
)
from pytest_fxregion.review.candidates import Offer, offers
from pytest_fxregion.snapshots.document import Document, Section, write_document

JOINT = """\
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[4][1]cpu"):
        # ac_graph_id: 0 - {tag}
        {name}: "f32[4][1]cpu" = torch.ops.aten.{op}.default(x);  x = None
        return ({name},)
"""


def document(op: str = "sin", tag: str = "PREFER_RECOMPUTE", made_on: str = "torch 1") -> Document:
    return Document(made_on, (Section("joint", JOINT.format(op=op, name=op, tag=tag)),))


@dataclass
class Artifacts:
    """``root`` is the checkout, ``folder`` the artifacts folder."""

    base: Path
    tests: list[TestEntry] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.base / "checkout"

    @property
    def folder(self) -> Path:
        return self.base / "downloaded"

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.folder.mkdir()

    def snapshot(self, name: str) -> Path:
        return self.root / "snapshots" / f"{name}.fx.txt"

    def hold(self, name: str, held: Document) -> Path:
        """Put a snapshot into the checkout."""
        return _write(self.snapshot(name), write_document(held))

    def offer(
        self,
        name: str,
        new: Document | str,
        *,
        old: Document | None = None,
        compared_with: str | None = None,
        snapshot: str | None = None,
        candidate: str | None = None,
    ) -> Offer:
        """Leave a candidate in the artifacts; ``old`` is what CI compared it with."""
        path = f"snapshots/{name}.fx.txt"
        text = new if isinstance(new, str) else write_document(new)
        _write(self.folder / path, text)
        made = Candidate(
            snapshot=snapshot or path,
            candidate=candidate or path,
            compared_with=None if old is None else (compared_with or path),
            compared_sha256=None if old is None else fingerprint(old),
            variant=None,
            kind="new" if old is None else "changed",
            summary=(f"what CI said of {name}",),
        )
        self.tests.append(TestEntry(f"tests/{name}", "failed", candidates=(made,)))
        report = MachineReport("2.13.0", "cpu", tuple(self.tests))
        _write(self.folder / FILE, write_report(report))
        (found,) = (each for each in offers(self.folder) if each.candidate == made)
        return found


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
