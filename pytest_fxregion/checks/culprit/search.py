"""Find which compiled region makes a run's results wrong.

Comes in: the call, and what tells wrong results.  Goes out: a
:class:`~pytest_fxregion.checks.culprit.finding.Finding`.

The call is compiled once more.  Then its pieces are put back to eager, some at a time, on the same
inputs and seed, until a smallest set of compiled pieces is left with which the results are still
wrong.  The first of them is taken apart on the values that it had in that run.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pytest_fxregion._torch.dynamo import reset_compiler
from pytest_fxregion._torch.inductor import patched_inductor_config
from pytest_fxregion.backend import RegionalBackend
from pytest_fxregion.capture.observer import Capture
from pytest_fxregion.checks.culprit.finding import Culprit, Finding, Source
from pytest_fxregion.checks.culprit.minimal import minimal_failing
from pytest_fxregion.checks.culprit.pieces import (
    CompiledPiece,
    compiled_pieces,
    in_eager,
    operands_recorded,
)
from pytest_fxregion.checks.culprit.script import Script, write_script
from pytest_fxregion.checks.culprit.shrink import Part, shrink
from pytest_fxregion.checks.culprit.trial import differences
from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.numerics import Tolerance
from pytest_fxregion.execution import Again
from pytest_fxregion.regional.repro import holds_objects

# More than a few wrong pieces are one fault more often than many.
_MOST_CULPRITS = 3

IsWrong = Callable[[Mapping[str, Any]], bool]


@contextmanager
def _compiled(again: Again) -> Iterator[tuple[Callable[[], Mapping[str, Any]], Capture]]:
    """Compile the call; gives what runs it and returns its values, and the records."""
    capture = Capture()
    function = torch.compile(
        again.call.function, backend=RegionalBackend(capture), dynamic=again.dynamic
    )
    reset_compiler()
    try:
        with patched_inductor_config({"fallback_random": True}):
            yield partial(again.run, function), capture
    finally:
        reset_compiler()


def find(again: Again, is_wrong: IsWrong, source: Source, tolerance: Tolerance | None) -> Finding:
    """Return the wrong pieces, each with a script in a file of its own.

    ``tolerance`` is the test's, where it takes the place of the rule.
    """
    with _compiled(again) as (run, capture):
        first = run()
        compilation = capture.result()
        several = len(compilation.graphs) > 1
        pieces = compiled_pieces(compilation)
        if not pieces:
            return Finding((), "no region was compiled: the difference lies outside", several)

        def wrong_with(compiled: Sequence[CompiledPiece]) -> bool:
            """Whether the results are wrong with only these pieces compiled."""
            kept = {id(piece) for piece in compiled}
            with in_eager(piece for piece in pieces if id(piece) not in kept):
                return is_wrong(run())

        if not is_wrong(first):
            note = "compiled and run again, the results were right: something is not repeatable"
            return Finding((), note, several)
        if len(capture.result().graphs) != len(compilation.graphs):
            return Finding((), "each call is compiled anew, so no region can be told", several)
        if wrong_with(()):
            note = (
                "with every region put back to eager the difference is still there: it comes from "
                "how the function was traced, not from a region"
            )
            return Finding((), note, several)
        sets = list(_wrong_sets(pieces, wrong_with))
        culprits = []
        for number, together in enumerate(sets):
            piece, *others = together
            with in_eager(p for p in pieces if p not in together), operands_recorded(piece) as seen:
                run()
            same = tuple(p for p in pieces if p is not piece and p.artifact is piece.artifact)
            found = _taken_apart(piece, seen[0] if seen else None, source, number, tolerance)
            culprits.append(replace(found, with_it=tuple(others), same_code=same))
    ended = "there may be more wrong regions: the search ends here"
    return Finding(tuple(culprits), ended if len(sets) == _MOST_CULPRITS else None, several)


def script_files(first: Path) -> list[Path]:
    """Return the files of all scripts that a search may write, the first one's given."""
    later = (first.with_stem(f"{first.stem}-{n}") for n in range(2, _MOST_CULPRITS + 1))
    return [first, *later]


def _wrong_sets(
    pieces: Sequence[CompiledPiece], wrong_with: Callable[[Sequence[CompiledPiece]], bool]
) -> Iterator[list[CompiledPiece]]:
    """Yield smallest sets of pieces with which the results are wrong, each piece's code once."""
    left = list(pieces)
    for _ in range(_MOST_CULPRITS):
        together = minimal_failing(left, wrong_with)
        yield together
        code = {id(piece.artifact) for piece in together[:1]}
        left = [piece for piece in left if id(piece.artifact) not in code]
        if not left or not wrong_with(left):
            return


def _taken_apart(
    piece: CompiledPiece,
    operands: Sequence[object] | None,
    source: Source,
    number: int,
    tolerance: Tolerance | None,
) -> Culprit:
    """Find the smallest part of a piece that differs, and write the script of it."""
    configs = piece.region.configs

    def differing(part: Part) -> Sequence[Difference]:
        return differences(part, configs, tolerance)

    part = None
    if operands is not None:
        part = shrink(piece.region.body, operands, lambda part: bool(differing(part)))
    if part is None:
        return Culprit(piece)
    found = Culprit(
        piece,
        operations=part.operations,
        difference=str(next(iter(differing(part)), "")),
        has_script=not holds_objects(part.module),
    )
    if source.scripts is None or not found.has_script:
        return found
    file = script_files(source.scripts)[number]
    script = write_script(part, configs, source.about(piece, part, file), differing)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script.text, encoding="utf-8")
    except OSError as error:  # what was found stands without it
        return replace(found, not_written=str(error))
    return replace(found, script=file, script_fails=_why_it_does_not_show(script, file))


def _why_it_does_not_show(script: Script, file: Path) -> str | None:
    """Run the script as it is, in this process; return why it shows nothing, or None if it does."""
    device = next((i.device.type for i in script.part.inputs if isinstance(i, torch.Tensor)), "cpu")
    names: dict[str, Any] = {"__name__": "fxregion_script", "__file__": str(file)}
    try:
        exec(compile(script.text, str(file), "exec"), names)
        names["DEVICE"] = torch.device(device)
        with contextlib.redirect_stdout(io.StringIO()):
            differs = names["main"]()
    except Exception as error:  # a script that does not run may raise anything
        return f"{type(error).__name__}: {error}"
    return None if differs else "compiled as it stands there, the part agrees with eager"
