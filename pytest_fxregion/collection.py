"""Skip fxregion tests without importing their modules.

A module of fxregion tests nearly always imports torch, which costs seconds.  Where ``--fxregion``
is not given and a look at the module's source shows that every test in it is an fxregion test, its
tests are reported as skipped without the module being imported.  In every other module the tests
are collected as usual and those that are fxregion tests are skipped one by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
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

    Judged by the source alone and cautiously: None where a class inherits tests, where the module
    marks or generates tests in ways that cannot be read off, or where there are none.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return None  # Importing it as usual gives the proper error.
    found: list[tuple[str, ...]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "pytest_generate_tests":
                return None
            if _matches(node.name, config.getini("python_functions")):
                if not _asks_for_us(node):
                    return None
                found.append((node.name,))
        elif isinstance(node, ast.ClassDef) and _matches(
            node.name, config.getini("python_classes")
        ):
            if node.bases:
                return None
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and _matches(
                    method.name, config.getini("python_functions")
                ):
                    if not (_asks_for_us(method) or _marked(node)):
                        return None
                    found.append((node.name, method.name))
        elif not _is_plain(node) or _may_be_unittest(node):
            return None
    return found or None


def _asks_for_us(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    return not FIXTURES.isdisjoint(arguments) or _marked(function)


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(
        ast.unparse(decorator).split("(")[0] == "pytest.mark.fxregion"
        for decorator in node.decorator_list
    )


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement at module level cannot define or skip tests in a way of its own."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(
        node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.ClassDef | ast.Pass
    )


def _may_be_unittest(node: ast.stmt) -> bool:
    """Whether a class may be collected for its base, whatever its name is."""
    return (
        isinstance(node, ast.ClassDef)
        and bool(node.bases)
        and any(
            isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            and method.name.startswith("test")
            for method in node.body
        )
    )


def _matches(name: str, patterns: list[str]) -> bool:
    return any(name.startswith(p) or ("*" in p and fnmatch(name, p)) for p in patterns)
