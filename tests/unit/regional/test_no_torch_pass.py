"""The engine is its own: no partitioner, fuser or regional pass of torch's takes part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "pytest_fxregion"

TORCHS_OWN = (
    "torch.fx.passes.regional_inductor",
    "torch.fx.passes.infra.partitioner",
    "torch.fx.passes.operator_support",
    "torch.fx.passes.utils.fuser_utils",
    "torch.fx.passes.split_module",
    "torch.fx.passes.splitter_base",
)
NAMES = ("CapabilityBasedPartitioner", "fuse_by_partitions", "split_module", "_RegionScooper")


def names_in(tree: ast.AST) -> Iterator[str]:
    """Dotted names that code imports or reaches for, strings of dynamic imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def uses(source: str) -> list[str]:
    return [
        name
        for name in names_in(ast.parse(source))
        if name.startswith(TORCHS_OWN) or name.split(".")[-1] in NAMES
    ]


def test_no_module_uses_torchs_pass() -> None:
    used = {path: uses(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert len(used) > 50
    assert {path: names for path, names in used.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from torch.fx.passes.regional_inductor import regional_inductor",
        "from torch.fx.passes.infra import partitioner",
        "import torch.fx.passes.utils.fuser_utils",
        "torch.fx.passes.regional_inductor.regional_inductor(gm)",
        "importlib.import_module('torch.fx.passes.infra.partitioner')",
    ],
)
def test_a_use_would_be_seen(source: str) -> None:
    assert uses(source)
