"""Make a failing program smaller while it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.fuzz.programs import Block, Line, Program, Several, Statement

_NAME = re.compile(r"\b(?:[abcins]|v\d+|(?:stretch|layer)\d+|linear|norm|mlp)\b(?!=)")


def shrunk(program: Program, fails: Callable[[Program], bool], attempts: int) -> Program:
    """Return the smallest program found that ``fails``, asking at most ``attempts`` times."""
    seen: set[str] = set()
    going = True
    while going:
        going = False
        for candidate in smaller(program):
            text = str(candidate)
            if text in seen or not names_are_known(candidate):
                continue
            seen.add(text)
            attempts -= 1
            if attempts < 0:
                return program
            if fails(candidate):
                program, going = candidate, True
                break
    return program


def smaller(program: Program) -> Iterator[Program]:
    """Yield programs with one thing less, the largest things first."""
    for statements in _less(program.statements):
        yield replace(program, statements=statements)
        used = {name for line in _lines(statements) for name in _names(line)}
        kept = tuple(r for r in program.results if r in used or r in _inputs(program))
        if kept and kept != program.results:
            yield replace(program, statements=statements, results=kept)
    for name in (
        sorted(_made(program.statements) - set(program.results))
        if len(program.results) == 1
        else ()
    ):
        yield replace(program, results=(name,))
    if len(program.results) > 1:
        for i in range(len(program.results)):
            yield replace(program, results=program.results[:i] + program.results[i + 1 :])
    if program.dynamic:
        yield replace(program, dynamic=False)
    if program.structured:
        yield replace(program, structured=False)
    for i, given in enumerate(program.inputs):
        if len(program.inputs) > 1:
            yield replace(program, inputs=program.inputs[:i] + program.inputs[i + 1 :])
        if "requires_grad" in given.made_by:
            plain = replace(given, made_by=given.made_by.replace(", requires_grad=True", ""))
            yield replace(program, inputs=(*program.inputs[:i], plain, *program.inputs[i + 1 :]))


def names_are_known(program: Program) -> bool:
    """Whether every name stands for something; it is cheaper to see than to run."""
    known = _inputs(program)
    for line in _lines(program.statements):
        target, equals, value = line.partition(" = ")
        if line.startswith("def "):
            known |= _names(line)
            continue
        if not _names(value if equals else line) <= known:
            return False
        if equals:
            known |= _names(target)
    return set(program.results) <= known


def _less(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Yield the statements without one of them, without one's head, or with less inside one."""
    for i in reversed(range(len(statements))):
        before, statement, after = statements[:i], statements[i], statements[i + 1 :]
        yield (*before, *after)
        if isinstance(statement, Line):
            continue
        if isinstance(statement, Block) and not statement.head.startswith("def "):
            yield (*before, *statement.body, *after)
        for body in _less(statement.body):
            if body or isinstance(statement, Several):
                yield (*before, replace(statement, body=body), *after)


def _lines(statements: Sequence[Statement]) -> list[str]:
    return [line.strip() for statement in statements for line in statement.lines()]


def _made(statements: Sequence[Statement]) -> set[str]:
    """Return the names that are assigned, but for those of inner functions."""
    made: set[str] = set()
    for statement in statements:
        if isinstance(statement, Line):
            target, equals, _ = statement.text.partition(" = ")
            made |= _names(target) if equals and "[" not in target else set()
        elif not (isinstance(statement, Block) and statement.head.startswith("def ")):
            made |= _made(statement.body)
    return made


def _names(text: str) -> set[str]:
    return set(_NAME.findall(re.sub(r'"[^"]*"', "", text)))


def _inputs(program: Program) -> set[str]:
    return {given.name for given in program.inputs}
