"""One line for any value, the same in every process."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import os
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import CheckpointPolicy

from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion.readable.values import stable_text

HERE = __name__


class Plain:
    pass


class TwoLines:
    def __repr__(self) -> str:
        return f"two\nlines at {hex(id(self))} or {id(self)}"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text for you")


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Name(str):
    pass


@dataclasses.dataclass
class Config:
    size: int
    tags: set[str]
    owner: object
    cache: object = dataclasses.field(default=None, repr=False)

    def area(self) -> int:
        return self.size**2


Pair = collections.namedtuple("Pair", "left right")


def function(x: int, k: object = None) -> int:
    return x


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (1, "1"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        (1j, "1j"),
        ("a'b", '"a\'b"'),
        (b"x\x00", "b'x\\x00'"),
        (Name("x"), "'x'"),
        ([1, "a", None], "[1, 'a', None]"),
        ((1,), "(1,)"),
        ((), "()"),
        (Pair(1, {2}), "Pair(left=1, right={2})"),
        ({3, 10, 2}, "{2, 3, 10}"),
        ({"b", "a"}, "{'a', 'b'}"),
        ({"b", 1, (2, 3)}, "{1, 'b', (2, 3)}"),
        (set(), "set()"),
        (frozenset({2, 1}), "frozenset({1, 2})"),
        ({"b": 1, "a": {"d": 2, "c": 3}}, "{'a': {'c': 3, 'd': 2}, 'b': 1}"),
        ({10: 1, 9: 2}, "{9: 2, 10: 1}"),
        (MappingProxyType({"a": 1}), "{'a': 1}"),
        (collections.OrderedDict(b=1, a=2), "{'a': 2, 'b': 1}"),
        (slice(None, 2), "slice(None, 2, None)"),
        (range(3), "range(0, 3)"),
        (Color.RED, "Color.RED"),
        (Level.LOW, "Level.LOW"),
        (Access.READ | Access.WRITE, "Access.READ|WRITE"),
        (CheckpointPolicy.MUST_SAVE, "CheckpointPolicy.MUST_SAVE"),
        (numpy.int64(3), "3"),
        (numpy.float32(0.5), "0.5"),
        (numpy.longdouble(0.5), "0.5"),
        (numpy.zeros((2, 3), "float32"), "array(float32[2, 3] sha256:a01624450ba7)"),
        (numpy.array([None, 1]), "array(object[2] [None, 1])"),
        (torch.float32, "torch.float32"),
        (torch.device("cuda", 0), "device(type='cuda', index=0)"),
        (torch.channels_last, "torch.channels_last"),
        (torch.Size([2, 3]), "torch.Size([2, 3])"),
        (torch.ops.aten.mm.default, "torch.ops.aten.mm.default"),
        (torch.ops.aten.mm, "torch.ops.aten.mm"),
        (torch.nn.Linear, "torch.nn.modules.linear.Linear"),
        (os.path, "posixpath"),
        (len, "len"),
        (function, f"{HERE}.function"),
        (Config(1, set(), 2).area, f"{HERE}.Config.area"),
        (functools.partial(function, 1, k={2}), f"functools.partial({HERE}.function, 1, k={{2}})"),
        (Plain, f"{HERE}.Plain"),
        (Plain(), f"<{HERE}.Plain object>"),
        (Broken(), f"<{HERE}.Broken object>"),
        (TwoLines(), "two\\nlines or ..."),
        (
            Config(1, {"b", "a"}, Plain()),
            f"Config(size=1, tags={{'a', 'b'}}, owner=<{HERE}.Plain object>)",
        ),
        (torch.Generator(), "<torch._C.Generator object>"),
        ("line\u2028break\ud800", "'line\\u2028break\\ud800'"),
    ],
)
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert stable_text(value) == text


def test_values_that_contain_themselves_end() -> None:
    cycle: list[Any] = [1]
    cycle.append({"again": cycle})
    assert stable_text(cycle) == "[1, {'again': ...}]"


def test_a_value_that_appears_twice_is_written_twice() -> None:
    shared = [1]
    assert stable_text([shared, shared]) == "[[1], [1]]"


def test_long_values_are_not_cut() -> None:
    assert stable_text("x" * 500 + "1") != stable_text("x" * 500 + "2")


def test_lambdas_go_by_where_they_are_made() -> None:
    assert stable_text(lambda: None) == (
        f"{HERE}.test_lambdas_go_by_where_they_are_made.<locals>.<lambda>"
    )


def test_a_text_is_one_printable_line() -> None:
    assert stable_text({"a\nb": "\x00\x85\u2028\t"}).isprintable()


class TestTensors:
    def test_are_told_apart_by_content(self) -> None:
        text = stable_text(torch.tensor([1.0, 2.0]))
        assert re.fullmatch(r"tensor\(f32\[2\]\[1\]cpu sha256:[0-9a-f]{12}\)", text)
        assert text != stable_text(torch.tensor([1.0, 3.0]))

    def test_hash_is_of_elements_and_not_of_strides(self) -> None:
        matrix = torch.arange(6.0).reshape(2, 3)
        column_major = matrix.t().contiguous().t()
        assert (
            stable_text(matrix).split("sha256")[1] == stable_text(column_major).split("sha256")[1]
        )

    def test_hash_is_the_documented_one(self) -> None:
        assert stable_text(torch.zeros(2)) == "tensor(f32[2][1]cpu sha256:703ffecb2179)"

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: torch.tensor(True), id="bool"),
            pytest.param(lambda: torch.ones(2, dtype=torch.bfloat16), id="bfloat16"),
            pytest.param(lambda: torch.ones(2, dtype=torch.complex64).conj(), id="conjugate"),
            pytest.param(lambda: torch.ones(2, dtype=torch.float8_e4m3fn), id="float8"),
            pytest.param(lambda: torch.empty(0, 3), id="empty"),
            pytest.param(lambda: torch.eye(3).to_sparse(), id="sparse_coo"),
            pytest.param(lambda: torch.eye(3).to_sparse_csr(), id="sparse_csr"),
            pytest.param(lambda: torch.eye(3).to_sparse_csc(), id="sparse_csc"),
            pytest.param(
                lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
                id="quantised",
            ),
            pytest.param(lambda: TwoTensor(torch.ones(2), torch.zeros(2)), id="subclass"),
        ],
    )
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_of_every_kind_have_a_hash(self, make: Callable[[], torch.Tensor]) -> None:
        assert "sha256:" in stable_text(make())

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_that_are_quantised_differ_by_their_scale(self) -> None:
        first, second = (
            stable_text(torch.quantize_per_tensor(torch.ones(2) * scale, scale, 0, torch.quint8))
            for scale in (0.1, 0.2)
        )
        assert first != second

    def test_have_a_hash_while_fake_tensors_are_made(self) -> None:
        constant = torch.zeros(2)
        with FakeTensorMode():
            text = stable_text(constant)
        assert text == "tensor(f32[2][1]cpu sha256:703ffecb2179)"

    def test_that_are_fake_have_none(self) -> None:
        with FakeTensorMode():
            fake = torch.zeros(2)
            assert stable_text(TwoTensor(fake, fake)) == "tensor(f32[2][1]cpu)"
        assert stable_text(fake) == "tensor(f32[2][1]cpu)"

    def test_without_content_have_none(self) -> None:
        assert stable_text(torch.empty(2, device="meta")) == "tensor(f32[2][1]meta)"
