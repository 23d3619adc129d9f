"""Take Inductor's generated program apart: the kernels in it, and the operators that it calls.

Comes in: the Python text of one compiled region.  Goes out: a :class:`Program`.  Text in, text out:
nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

# What changes between two runs, two machines or two caches, but not the kernel.
_CHANGING = (
    (re.compile(r"'backend_hash': '[0-9A-F]+'"), "'backend_hash': '…'"),
    (re.compile(r"# Topologically Sorted Source Nodes: .*\n"), ""),
    (re.compile(r"'(?P<path>/[^']*/)(?P<name>[^'/]+)'"), r"'\g<name>'"),
    (re.compile(r'#include "/[^"]*/(?P<name>[^"/]+)"'), r'#include "\g<name>"'),
)


@dataclass(frozen=True)
class Kernel:
    """One kernel: ``name``, ``language`` (``triton`` or ``cpp``) and ``source``.

    ``source`` is as Inductor wrote it; :attr:`stable_source` has what differs between machines
    taken out.
    """

    name: str
    language: str
    source: str

    @property
    def stable_source(self) -> str:
        """The source for a snapshot: no hashes of the installation, no absolute paths."""
        text = self.source
        for pattern, replacement in _CHANGING:
            text = pattern.sub(replacement, text)
        return text.strip("\n")


@dataclass(frozen=True)
class Program:
    """What Inductor generated for one region.

    ``operators`` are called by name from outside the kernels (``extern_kernels.mm``), in order.
    """

    kernels: tuple[Kernel, ...]
    operators: tuple[str, ...]


def read_program(text: str) -> Program:
    """Read the text of a generated program; a text that is no Python has nothing in it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return Program((), ())
    kernels: dict[str, Kernel] = {}
    operators: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (kernel := _kernel(node)) is not None:
            kernels.setdefault(kernel.name, kernel)
        elif isinstance(node, ast.FunctionDef) and node.name == "call":
            for name in _operators(node):
                operators.setdefault(name)
    return Program(tuple(kernels.values()), tuple(operators))


def _kernel(node: ast.Assign) -> Kernel | None:
    """The kernel of ``name = async_compile.triton('name', '''source''', …)`` and its kind."""
    target, call = node.targets[0], node.value
    if not (
        isinstance(target, ast.Name)
        and isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "async_compile"
    ):
        return None
    language = "triton" if call.func.attr == "triton" else "cpp"
    texts = [
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return Kernel(target.id, language, texts[-1]) if texts else None


def _operators(call: ast.FunctionDef) -> list[str]:
    """The operators that the program's ``call`` function calls, in the order of the text."""
    found = [
        (node.lineno, node.col_offset, name)
        for node in ast.walk(call)
        if isinstance(node, ast.Call)
        and (name := ast.unparse(node.func)).startswith(("extern_kernels.", "torch.ops."))
    ]
    return [name for _, _, name in sorted(found)]
