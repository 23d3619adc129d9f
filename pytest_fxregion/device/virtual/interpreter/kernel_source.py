"""A ``@triton.jit`` function as a plain Python function over tensors of the interpreter.

Triton's compiler makes a tensor of every number that is assigned to a name (``acc = 0.0`` has a
``.to``); here the function's own source is compiled again with each assigned value passed through
that conversion.  Nothing is added to the module that the function comes from but one name.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from triton.runtime import interpreter

_AS_TENSOR = "__fxregion_as_tensor__"
_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}


def python_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` (the function under ``@triton.jit``) ready to run; compiled once."""
    if fn not in _compiled:
        _compiled[fn] = _compile(fn)
    return _compiled[fn]


def _as_tensor(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return interpreter.interpreter_semantic.to_tensor(value, False)
    return value


class _Assignments(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = ast.Call(ast.Name(_AS_TENSOR, ast.Load()), [node.value], [])
        return node


def _compile(fn: Callable[..., Any]) -> Callable[..., Any]:
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        return fn  # made without source text, by another program
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    _Assignments().visit(definition)
    # What the function closes over becomes the parameters of a function around it.
    around = ast.parse(f"def around({', '.join(fn.__code__.co_freevars)}): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [definition, ast.Return(ast.Name(definition.name, ast.Load()))]
    tree.body = [around]
    ast.fix_missing_locations(tree)
    namespace: dict[str, Any] = {}
    fn.__globals__[_AS_TENSOR] = _as_tensor
    exec(compile(tree, inspect.getfile(fn), "exec"), fn.__globals__, namespace)
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    rebuilt: Callable[..., Any] = namespace["around"](*cells)
    rebuilt.__defaults__, rebuilt.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    return rebuilt
