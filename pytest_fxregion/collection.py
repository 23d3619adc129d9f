"""Skip fxregion tests without importing their modules.

A module of fxregion tests nearly always imports torch, which costs seconds.  Where ``--fxregion``
is not given and a look at the module's source shows that every test in it is an fxregion test, its
tests are reported as skipped without the module being imported.  In every other module the tests
are collected as usual and those that are fxregion tests are skipped one by one.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import NoReturn

import pytest

FIXTURES = frozenset({"fxregion", "fxregion_snapshot"})
REASON = "needs --fxregion"


def is_fxregion_test(item: pytest.Item) -> bool:
    """Whether the test asks for one of our fixtures or carries our marker."""
    names = getattr(item, "fixturenames", ())
    return not FIXTURES.isdisjoint(names) or item.get_closest_marker("fxregion") is not None


def without_import(file: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector that does not import ``file``, or None to collect it as usual.

    As usual is also what happens where tests are named by id: an id may hold parameters, which only
    importing would tell.
    """
    if any("::" in arg for arg in parent.config.args):
        return None
    if fxregion_tests(file, parent.config) is None:
        return None
    return UnimportedModule.from_parent(parent, path=file)


class UnimportedModule(pytest.File):
    """A module that holds fxregion tests only, and is not imported."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one skipped item for each test that the source shows."""
        for path in fxregion_tests(self.path, self.config) or ():
            yield SkippedTest.from_parent(self, name="::".join(path))


class SkippedTest(pytest.Item):
    """A test of a module that was not imported.  Parameters are not known, so it stands for all."""

    def runtest(self) -> NoReturn:
        """Skip."""
        pytest.skip(REASON)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Say where the test is, for the skip's place in the summary."""
        return self.path, None, self.name


def fxregion_tests(file: Path, config: pytest.Config) -> list[tuple[str, ...]] | None:
    """Return the names of the file's tests if all of them are fxregion tests, else None.

    Judged by the source alone and cautiously: None where tests may come from elsewhere (a base
    class, an import, an assignment, a decorator), where the module marks or generates tests in ways
    that cannot be read off, or where there are none.
    """
    try:
        source = file.read_bytes()
        if b"fxregion" not in source:
            return None  # nearly every module of a suite, at the price of reading it
        tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError):
        return None  # Importing it as usual gives the proper error.
    return _Reading(config.getini("python_functions"), config.getini("python_classes")).of(tree)


@dataclass
class _Reading:
    """What the statements of one module say about its tests."""

    functions: list[str]
    classes: list[str]
    known: set[str] = field(default_factory=lambda: set(dir(builtins)))
    """Names of classes whose subclasses pytest collects for nothing but their own name."""

    def of(self, module: ast.Module) -> list[tuple[str, ...]] | None:
        found: dict[tuple[str, ...], None] = {}
        for node in module.body:
            tests = self._tests_in(node)
            if tests is None:
                return None
            found |= dict.fromkeys(tests)
        return list(found) or None

    def _tests_in(self, node: ast.stmt) -> list[tuple[str, ...]] | None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._function(node, in_marked_class=False)
        if isinstance(node, ast.ClassDef):
            return self._class(node)
        return [] if self._is_plain(node) else None

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, *, in_marked_class: bool
    ) -> list[tuple[str, ...]] | None:
        if node.name.startswith("pytest_"):
            return None  # a hook
        if not _matches(node.name, self.functions):
            return []
        ours = in_marked_class or _asks_for_us(node) or _marked(node)
        return [(node.name,)] if ours and _only_marks(node) else None

    def _class(self, node: ast.ClassDef) -> list[tuple[str, ...]] | None:
        if not _matches(node.name, self.classes):
            known = not node.keywords and all(_root(base) in self.known for base in node.bases)
            if not known or "TestCase" in "".join(map(ast.unparse, node.bases)):
                return None  # It may be a unittest.TestCase, which is collected under any name.
            self.known.add(node.name)
            return None if any(_binds(s, "__test__") for s in node.body) else []
        if node.bases or node.keywords or not _only_marks(node):
            return None
        found: list[tuple[str, ...]] = []
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                tests = self._function(statement, in_marked_class=_marked(node))
                if tests is None or statement.name in ("__init__", "__new__"):
                    return None
                found += [(node.name, *names) for names in tests]
            elif isinstance(statement, ast.ClassDef) or not self._is_plain(statement):
                return None
        return found

    def _is_plain(self, node: ast.stmt) -> bool:
        """Whether a statement cannot define or skip tests in a way of its own."""
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.Import):
                modules = names = [name.partition(".")[0] for name in names]
            else:
                modules = [(node.module or "").partition(".")[0]] * len(names)
                if any(self._may_be_collected(name) or name == "*" for name in names):
                    return False
            safe = (set(sys.stdlib_module_names) | {"torch"}) - {"unittest"}
            if not (isinstance(node, ast.ImportFrom) and node.level):
                self.known |= {n for n, m in zip(names, modules, strict=True) if m in safe}
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [name for target in targets for name in _names(target)]
            calls_namespace = any(
                isinstance(n, ast.Name) and n.id in ("globals", "vars", "locals", "exec", "eval")
                for n in ast.walk(node)
            )
            return not calls_namespace and not any(
                name is None
                or name.startswith("pytest")
                or name == "__test__"
                or self._may_be_collected(name)
                for name in bound
            )
        if isinstance(node, ast.If):
            return ast.unparse(node.test).endswith("TYPE_CHECKING") and not node.orelse
        return isinstance(node, ast.Pass)

    def _may_be_collected(self, name: str) -> bool:
        return _matches(name, self.functions) or _matches(name, self.classes)


def _asks_for_us(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = function.args
    positional = [a.arg for a in arguments.args]
    positional = positional[: len(positional) - len(arguments.defaults)]
    keywords = [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]  # An argument that has a default is no fixture.
    return not FIXTURES.isdisjoint({*positional, *keywords})


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(
        ast.unparse(decorator).split("(")[0] == "pytest.mark.fxregion"
        for decorator in node.decorator_list
    )


def _only_marks(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether nothing wraps the test: any other decorator may make something else of it."""
    return all(ast.unparse(d).startswith("pytest.mark.") for d in node.decorator_list)


def _root(expression: ast.expr) -> str:
    """The name that a dotted expression starts with; empty for anything else."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _names(target: ast.expr) -> Iterator[str | None]:
    """The names that an assignment binds; None for one that changes an object."""
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _names(element)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
    else:
        yield target.id if isinstance(target, ast.Name) else None


def _binds(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement))


def _matches(name: str, patterns: list[str]) -> bool:
    return any(
        name.startswith(pattern) or (any(c in pattern for c in "*?[") and fnmatch(name, pattern))
        for pattern in patterns
    )
