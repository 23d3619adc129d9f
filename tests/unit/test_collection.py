"""Which modules are skipped unimported: only where the source alone shows every test."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pytest_fxregion.collection import fxregion_tests

OURS = "def test_one(fxregion):\n    pass\n"
OF_CLASS = "class TestIt:\n    def test_one(self, fxregion):\n        pass\n"


class Ini:
    """pytest's settings of what counts as a test."""

    def __init__(self, functions: list[str], classes: list[str]) -> None:
        self._values = {"python_functions": functions, "python_classes": classes}

    def getini(self, name: str) -> list[str]:
        return self._values[name]


def found_in(
    folder: Path, source: str | bytes, functions: Any = ("test",), classes: Any = ("Test",)
) -> list[str] | None:
    file = folder / "test_it.py"
    file.write_bytes(source.encode() if isinstance(source, str) else source)
    found = fxregion_tests(file, cast(pytest.Config, Ini(list(functions), list(classes))))
    return None if found is None else ["::".join(names) for names in found]


PLAIN = {
    "imports": "from __future__ import annotations\nimport torch, numpy as np",
    "relative imports": "from . import models\nfrom .models import Layer, build",
    "a docstring": '"""About."""\nX = 1',
    "constants": "A, (B, *C) = 1, (2, 3)\nD: int = 4\n__all__ = ['test_one']",
    "a guarded import": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    "functions": "def helper(test_x):\n    return test_x",
    "a fixture": "import pytest\n@pytest.fixture(autouse=True)\ndef prepared():\n    yield",
    "a module of torch": "from torch import nn\nclass Layer(nn.Module):\n    x = 1",
    "a module of a module": "import torch\nclass A(torch.nn.Module): ...\nclass B(A): ...",
    "a module that names a method so": "from torch.nn import Module\nclass A(Module):\n test = 0",
    "a decorated class": "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1",
    "an exception": "class Wrong(ValueError): ...",
    "a protocol": "from typing import Protocol\nclass Shape(Protocol): ...",
}


@pytest.mark.parametrize("beside", PLAIN.values(), ids=PLAIN)
def test_what_may_stand_beside_the_tests(tmp_path: Path, beside: str) -> None:
    assert found_in(tmp_path, f"{beside}\n{OURS}") == ["test_one"]
    assert found_in(tmp_path, f"{beside}\n{OF_CLASS}") == ["TestIt::test_one"]


FORMS = {
    "keyword-only": "def test_one(*, fxregion): ...",
    "the snapshot fixture": "def test_one(fxregion_snapshot): ...",
    "async": "async def test_one(fxregion): ...",
    "marked": "import pytest\n@pytest.mark.fxregion\ndef test_one(run): ...",
    "marked with settings": "@pytest.mark.fxregion(gpu=True)\ndef test_one(run): ...",
    "parametrized": (
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_one(fxregion, n): ..."
    ),
}


@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
def test_forms_of_fxregion_tests(tmp_path: Path, source: str) -> None:
    assert found_in(tmp_path, f"# fxregion\n{source}") == ["test_one"]


def test_every_method_of_a_marked_class_is_ours(tmp_path: Path) -> None:
    source = """
import pytest
@pytest.mark.fxregion(device="cpu")
class TestIt:
    size = 3
    def helper(self): ...
    def test_one(self): ...
    def test_two(self, run): ...
"""
    assert found_in(tmp_path, source) == ["TestIt::test_one", "TestIt::test_two"]


def test_a_name_that_is_bound_twice_is_one_test(tmp_path: Path) -> None:
    assert found_in(tmp_path, OURS + OURS) == ["test_one"]


def test_the_projects_own_names_of_tests_count(tmp_path: Path) -> None:
    source = "def check_one(fxregion): ...\ndef test_two(): ...\nclass Test: ..."
    assert found_in(tmp_path, source, functions=["check_*"], classes=["*Case"]) == ["check_one"]
    assert found_in(tmp_path, source, functions=["check?one"], classes=["*Case"]) == ["check_one"]
    assert found_in(tmp_path, source, functions=["check", "test"]) is None


NOT_OURS = {
    "another test": "def test_two(): ...",
    "another test in a class": "class TestMore:\n    def test_two(self): ...",
    "a fixture of ours as a default": "def test_two(fxregion=None): ...",
    "one as a keyword's default": "def test_two(*, fxregion=None): ...",
    "positional-only is no fixture": "def test_two(fxregion, /): ...",
    "a fixture that uses ours": "def test_two(run): ...",
    "a star import": "from cases import *",
    "an imported test": "from cases import test_two",
    "an imported test under another name": "from cases import check as test_two",
    "an imported test class": "from cases import TestTwo",
    "an assigned test": "test_two = check",
    "an annotated one": "test_two: object = check",
    "one of several": "x, test_two = 1, check",
    "one in a chain": "x = test_two = check",
    "an assigned class": "TestTwo = make()",
    "a test put into globals()": "globals()['test_two'] = check",
    "globals() in a value": "_ = globals().update(test_two=check)",
    "an attribute that is set": "TestIt.test_two = check",
    "a call": "make_tests()",
    "a setattr": "setattr(sys.modules[__name__], 'test_two', check)",
    "a condition": "if X:\n    def test_two(): ...",
    "the other side of a guard": "if TYPE_CHECKING:\n    X = 1\nelse:\n    def test_two(): ...",
    "a loop": "for n in range(2):\n    exec(f'def test_{n}(): ...')",
    "a with block": "with open(x) as test_two: ...",
    "a try block": "try:\n    def test_two(): ...\nfinally: ...",
    "a deletion": "del test_one",
    "a generator of tests": "def pytest_generate_tests(metafunc): ...",
    "a collection hook": "def pytest_collection_modifyitems(items): ...",
    "marks for the module": "import pytest\npytestmark = pytest.mark.slow",
    "plugins": "pytest_plugins = ['mine']",
    "a module that is no test": "__test__ = False",
    "a decorated test": "@given(x)\ndef test_two(fxregion, x): ...",
    "a fixture that is called like a test": "@pytest.fixture\ndef test_two(fxregion): ...",
    "a class with a base": "class TestTwo(Base):\n    def test_two(self, fxregion): ...",
    "a class with a metaclass": "class TestTwo(metaclass=M):\n    def test_2(self, fxregion): ...",
    "a decorated test class": "@twice\nclass TestTwo:\n    def test_two(self, fxregion): ...",
    "a class with a constructor": "class TestTwo:\n    def __init__(self): ...",
    "a nested class": "class TestTwo:\n    class TestThree:\n        def test_three(self): ...",
    "a test assigned in a class": "class TestTwo:\n    test_two = check",
    "a condition in a class": "class TestTwo:\n    if X:\n        def test_two(self): ...",
    "a class that is no test": "class TestTwo:\n    __test__ = False",
    "a class that is one": "class Checks:\n    __test__ = True\n    def test_two(self): ...",
    "unittest": "import unittest\nclass Two(unittest.TestCase):\n    def test_two(self): ...",
    "unittest by name": "from unittest import TestCase\nclass Two(TestCase): ...",
    "a base of unknown origin": "from cases import Checks\nclass Two(Checks): ...",
    "a computed base": "class Two(make()): ...",
    "torch's TestCase": (
        "import torch\n"
        "class Two(torch.testing._internal.common_utils.TestCase):\n"
        "    def test_two(self): ..."
    ),
}


@pytest.mark.parametrize("beside", NOT_OURS.values(), ids=NOT_OURS)
def test_what_makes_a_module_be_imported(tmp_path: Path, beside: str) -> None:
    assert found_in(tmp_path, f"{OURS}\n{beside}\n") is None


@pytest.mark.parametrize(
    "source",
    [
        "",
        "x = 1  # fxregion",
        "def helper(fxregion): ...",
        "def test_one(fxregion:\n",
        b"# fxregion\n\xff = 1",
        b"# fxregion\n\0",
        b"# -*- coding: no-such -*-\n# fxregion\n",
    ],
)
def test_sources_that_show_no_test_are_left_to_pytest(tmp_path: Path, source: str | bytes) -> None:
    assert found_in(tmp_path, source) is None


def test_a_file_that_cannot_be_read_is_left_to_pytest(tmp_path: Path) -> None:
    config = cast(pytest.Config, Ini(["test"], ["Test"]))
    assert fxregion_tests(tmp_path / "missing.py", config) is None


def test_a_declared_encoding_is_kept(tmp_path: Path) -> None:
    source = "# -*- coding: latin-1 -*-\nX = 'é'\ndef test_one(fxregion): ...\n"
    assert found_in(tmp_path, source.encode("latin-1")) == ["test_one"]
