"""The text of a value's type."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_fxregion._torch.graphs import TensorMetadata
from pytest_fxregion.readable.types import annotation_text, dtype_text, layout_note


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.empty(2, 3), "f32[2, 3][3, 1]cpu"),
        (torch.empty(()), "f32[][]cpu"),
        (
            torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "f32[2, 3, 4, 5][60, 1, 15, 3]cpu",
        ),
        (torch.empty(2, dtype=torch.bfloat16, device="meta"), "bf16[2][1]meta"),
        (torch.nn.Parameter(torch.empty(2)), "Parameter(f32[2][1]cpu)"),
        (torch.eye(2).to_sparse(), "f32[2, 2][0, 0]cpu"),
        ((torch.empty(2), None), None),
        (3, None),
        (None, None),
    ],
)
def test_of_a_value(value: object, text: str | None) -> None:
    assert annotation_text({"val": value}) == text


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_a_compressed_layout_stands_in_a_note(layout: str) -> None:
    size = () if layout[0] == "c" else ((2, 2),)
    value = getattr(torch.eye(4), f"to_sparse_{layout}")(*size)
    assert annotation_text({"val": value}) is None
    assert layout_note({"val": value}) == f"f32[4, 4][sparse_{layout}]cpu"


def test_the_older_nested_tensors_have_no_sizes() -> None:
    with pytest.warns(UserWarning, match="nested"):
        value = torch.nested.nested_tensor([torch.ones(2)], layout=torch.strided)
    assert annotation_text({"val": value}) == "f32[?][?]cpu"


def test_of_what_shape_propagation_and_dynamo_record() -> None:
    recorded = TensorMetadata(torch.Size([2]), torch.int8, False, (1,), None, False, {})
    assert annotation_text({"tensor_meta": recorded}) == "i8[2]"
    assert annotation_text({"example_value": torch.empty(2)}) == "f32[2][1]cpu"
    assert annotation_text({"val": torch.empty(1), "tensor_meta": recorded}) == "f32[1][1]cpu"
    assert annotation_text({}) is None


DTYPES: dict[Any, str] = {
    torch.bool: "b8",
    torch.uint8: "u8",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex64: "c64",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.quint8: "quint8",
    torch.bits1x8: "b1x8",
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_have_torchs_short_names(dtype: torch.dtype) -> None:
    assert dtype_text(dtype) == DTYPES[dtype]
