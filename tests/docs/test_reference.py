"""The reference names every option, and quotes errors that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

import pytest_fxregion
from pytest_fxregion.options import add_options
from tests.plugin.pytest_process import SOURCE_TREE

REFERENCE = SOURCE_TREE / "docs" / "reference"
PACKAGE = SOURCE_TREE / "pytest_fxregion"


def strings() -> Iterator[str]:
    """Every string of the package, with … for what is put into it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    else "…"
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_option_is_in_the_reference() -> None:
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    ours = {f"--{name.replace('_', '-')}" for name in parser._inidict if "fxregion" in name}
    table = (REFERENCE / "options.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(--fxregion[a-z-]*)", table, re.MULTILINE))
    assert named == ours


def test_the_errors_of_the_reference_are_raised_somewhere() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    known = [" ".join(text.split()) for text in strings()]
    for message in quoted:
        pattern = ".*".join(re.escape(part.strip()) for part in message.split("…"))
        assert any(re.search(pattern, text) for text in known), message


def test_every_public_name_is_in_the_reference() -> None:
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    lacking = [
        name
        for name in pytest_fxregion.__all__
        if not name.startswith("_") and not name.endswith("Error") and f".{name}" not in page
    ]
    assert lacking == []
