"""What a search for the wrong region found, in words.  In: pieces, parts, scripts; out: text."""

from __future__ import annotations

import linecache
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import fx

from pytest_fxregion.checks.culprit.pieces import CompiledPiece
from pytest_fxregion.checks.culprit.shrink import Part
from pytest_fxregion.regional.annotation import source_of


@dataclass(frozen=True)
class Culprit:
    """A piece that makes the results wrong.

    ``with_it``: further pieces without which the results are right again.  ``same_code``: pieces
    that run the same compiled code.  ``operations`` are those of the smallest part of the piece
    that still differs by itself, ``difference`` how; none where the whole piece by itself agrees
    with eager.  ``script`` is the file that shows it; ``has_script`` whether there can be one,
    ``script_fails`` why it did not show it when it was tried, ``not_written`` why there is no file.
    """

    piece: CompiledPiece
    with_it: tuple[CompiledPiece, ...] = ()
    same_code: tuple[CompiledPiece, ...] = ()
    operations: tuple[fx.Node, ...] = ()
    difference: str | None = None
    has_script: bool = False
    script: Path | None = None
    script_fails: str | None = None
    not_written: str | None = None

    def lines(self, root: Path, several_graphs: bool) -> Iterator[str]:
        """Yield what a person reads; paths are shown from ``root``."""
        yield f"wrong: {name_of(self.piece, several_graphs)}"
        for source in self.piece.region.sources:
            yield f"  {located(source, root)}"
        kernels = [kernel.name for kernel in self.piece.program.kernels]
        called = [*kernels, *self.piece.program.operators]
        if called:
            yield f"  {'kernels' if kernels else 'calls'}: {', '.join(called)}"
        if self.same_code:
            names = ", ".join(name_of(piece, several_graphs) for piece in self.same_code)
            yield f"  the same code runs as {names}"
        if self.with_it:
            names = ", ".join(name_of(piece, several_graphs) for piece in self.with_it)
            yield f"  only together with {names}"
        if not self.operations:
            yield "  by itself, on the values of this run, it agrees with eager"
            return
        yield "  the smallest part of it that differs by itself:"
        for node in self.operations:
            where = source_of(node)
            place = f" ({located(where, root)})" if where else ""
            yield f"    {operation(node)}{place}"
        yield f"    {self.difference}"
        if not self.has_script:
            yield "  it holds a subgraph, so that no script of it can be written"
        elif self.not_written is not None:
            yield f"  its script could not be written: {self.not_written}"
        elif self.script_fails is not None:
            yield f"  its script does not show it here: {self.script_fails}"


@dataclass(frozen=True)
class Finding:
    """The culprits, and what there is to say besides."""

    culprits: tuple[Culprit, ...]
    note: str | None
    several_graphs: bool

    def text(self, source: Source) -> str:
        """Return all of it; its last line is the command that runs the first script."""
        lines = [
            line
            for culprit in self.culprits
            for line in culprit.lines(source.root, self.several_graphs)
        ]
        if self.note is not None:
            lines.append(self.note)
        scripts = [c.script for c in self.culprits if c.script is not None]
        if scripts:
            lines += ["To see it by itself, run:", source.command(scripts[0])]
        return "\n".join(lines)


def name_of(piece: CompiledPiece, several_graphs: bool) -> str:
    """Return how a piece is called in graphs and texts."""
    where = f"graph {piece.graph}, " if several_graphs else ""
    region = piece.region
    return f"{where}{region.kind} {region.name} (region {region.label})"


def operation(node: fx.Node) -> str:
    """Return an operation's name: ``aten.sin.default``."""
    return str(node.target) if node.op != "call_function" else _target(node.target)


def _target(target: object) -> str:
    return str(target) if "." in str(target) else getattr(target, "__name__", str(target))


def located(source: str, root: Path) -> str:
    """Return ``path:line: code`` for ``path:line``."""
    file, _, line = source.rpartition(":")
    code = linecache.getline(file, int(line)).strip()
    return f"{shown(Path(file), root)}:{line}" + (f": {code}" if code else "")


def shown(path: Path, root: Path) -> str:
    """Return a path from ``root``, where it lies below it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


@dataclass(frozen=True)
class Source:
    """Where a wrong number comes from: what scripts say of themselves, and where they go.

    ``test`` is the test's id, ``root`` what paths are shown from, ``scripts`` the first script's
    file, or None for none.  ``arch`` is the GPU that a virtual device stands for, None elsewhere.
    """

    test: str
    root: Path
    scripts: Path | None
    arch: str | None

    def about(self, piece: CompiledPiece, part: Part, file: Path) -> str:
        """Return the first lines of a script, which is to be ``file``."""
        lines = [
            "A part of a graph that Inductor compiles to something else than eager computes.",
            "",
            f"Found by {self.test}",
            f"in {name_of(piece, False)}, torch {torch.__version__}:",
            *(f"  {located(source, self.root)}" for source in piece.region.sources),
            "Of its operations these are left:",
            *(f"  {operation(node)}" for node in part.operations),
        ]
        if self.arch is not None:
            lines += [
                "",
                "It was found on pytest-fxregion's virtual device, where Triton's interpreter runs",
                "the kernels that Inductor writes for a GPU.  To run it there:",
                f"  {self.command(file)}",
                "With torch alone it needs a GPU; on a CPU, Inductor writes C++ instead, which may",
                "be right where the kernel for a GPU, or its interpreter, is wrong.",
            ]
        return "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")

    def command(self, file: Path) -> str:
        """Return the command that runs a script, as typed in the present folder."""
        words = ["python"]
        if self.arch is not None:
            words += ["-m", "pytest_fxregion", "virtual", f"--arch={self.arch}"]
        return shlex.join([*words, shown(file, Path.cwd())])
