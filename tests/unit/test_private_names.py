"""Private names of torch are imported in ``_torch/`` and in the virtual device, nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_fxregion

PACKAGE = Path(pytest_fxregion.__file__).parent
MAY = ("_torch", "device/virtual")


def private_names(source: str) -> Iterator[str]:
    """Give each private name of torch that a module imports, or reaches from ``torch`` itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        else:
            continue
        for name in names:
            first, *parts = name.split(".")
            if first == "torch" and any(p.startswith("_") and not p.endswith("__") for p in parts):
                yield name


@pytest.mark.parametrize(
    "source",
    [
        "import torch._inductor",
        "from torch._guards import tracing",
        "from torch import _C",
        "from torch.fx import graph\nfrom torch.utils._pytree import tree_map",
        "import torch\ntorch._dynamo.reset()",
    ],
)
def test_a_private_name_is_found(source: str) -> None:
    assert [*private_names(source)]


@pytest.mark.parametrize(
    "source",
    ["import torch\ntorch.compiler.reset()\ntorch.__version__", "from ._torch import x"],
)
def test_what_is_public_or_ours_is_not(source: str) -> None:
    assert not [*private_names(source)]


def test_other_modules_use_torch_by_its_public_names() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        names = [] if module.startswith(MAY) else [*private_names(path.read_text())]
        if names:
            found[module] = names
    assert not found
