"""Run one program, eager and compiled, with every check, and say what came of it.

Comes in: the text of a test file.  Goes out: an :class:`Outcome`.  The virtual device is loaded and
active where this is called.
"""

from __future__ import annotations

import ast
import importlib.util
import linecache
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import NoReturn

from pytest_fxregion.device import Device
from pytest_fxregion.errors import FxRegionWarning
from pytest_fxregion.harness import FxRegion
from pytest_fxregion.options import STAGES
from pytest_fxregion.readable import render
from pytest_fxregion.readable.counters import Counters
from pytest_fxregion.run import RegionRun
from pytest_fxregion.snapshots.document import Document, parse_document, write_document

FILE = "test_program.py"
TEST = f"{FILE}::test_program"
SECONDS = 120


@dataclass(frozen=True)
class Outcome:
    """``kind`` is ``ok``, or names the sort of failure; ``text`` is the failure in full."""

    kind: str
    text: str = ""
    seconds: float = 0.0
    regions: int = 0
    said: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.kind == "ok"


class Differs(AssertionError):
    """A text that is not the same when it is made again."""


def run(source: str, folder: Path, device: Device, *, twice: bool = False) -> Outcome:
    """Run a program's text in ``folder``; ``twice`` compiles it again and compares the graphs."""
    start = perf_counter()
    said: list[str] = []
    regions = 0
    try:
        with _limited(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", FxRegionWarning)
            module = load(source, folder)
            documents: list[Document] = []
            for _ in range(2 if twice else 1):
                harness = _harness(folder, device, documents)
                with harness.seeded():
                    module.test_program(harness)
                _check_texts(harness.runs[0], documents[-1], folder)
            if documents[0] != documents[-1]:
                raise Differs("the graphs of a second run differ from those of the first")
            regions = len(harness.runs[0].regions)
        said = [re.sub(r".*: annotated", "annotated", str(w.message)) for w in caught]
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return Outcome(kind_of(error), text, perf_counter() - start)
    return Outcome("ok", "", perf_counter() - start, regions, tuple(said))


def kind_of(error: BaseException) -> str:
    """Name the sort of failure: what was raised and where, and its message without its values."""
    while error.__cause__ is not None and type(error).__name__ != "RegionError":
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    # The first line of a failed check says only which check; the next has what it found.
    message = " / ".join(lines[:2] if "CheckError" in type(error).__name__ else lines[:1])
    message = re.sub(r"0x[0-9a-f]+|\b[a-z_]+_\d+\b|-?\d+(\.\d+)?(e[-+]?\d+)?", "#", message)
    message = re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", message.removeprefix(f"{TEST}: "))
    message = message.replace("additions", "addition")
    own = [
        f"{Path(frame.filename).name}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return f"{type(error).__name__}: {message[:160].strip()} at {own[-1] if own else '?'}"


def _harness(folder: Path, device: Device, documents: list[Document]) -> FxRegion:
    def record(document: Document, *, name: str | None) -> None:
        documents.append(document)

    return FxRegion(
        test=TEST,
        root=folder,
        device=device,
        stages=STAGES,
        provenance="fuzz",
        snapshot=record,
    )


def _check_texts(run: RegionRun, document: Document, root: Path) -> None:
    """Hold each graph's text to what it must be: Python, the same when rendered again, readable."""
    for graph in run.graphs:
        counters = Counters()  # a graph's stages are numbered together
        for record in graph.stages():
            if render(record.graph, root=root, counters=counters) != record.text:
                raise Differs(f"the text of {record.stage} differs when rendered again")
            ast.parse(record.text)
            for text in record.region_texts.values():
                ast.parse(text)
    if parse_document(write_document(document), source=FILE) != document:
        raise Differs("the document differs when read back")


def load(source: str, folder: Path) -> ModuleType:
    """Import a program's text from a file of its own in ``folder``."""
    path = folder / FILE
    path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    linecache.cache.pop(str(path), None)
    spec = importlib.util.spec_from_file_location("test_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_program"] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


@contextmanager
def _limited() -> Iterator[None]:
    def too_long(*_: object) -> NoReturn:
        raise TimeoutError(f"not done in {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
