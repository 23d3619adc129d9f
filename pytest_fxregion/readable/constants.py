"""A tensor that is stored in a graph in, its dtype, shape and a hash of its content out."""

from __future__ import annotations

import hashlib
import sys

import torch

from pytest_fxregion._torch.modes import without_dispatch_modes
from pytest_fxregion._torch.tensors import has_content
from pytest_fxregion.readable.types import dtype_text, tensor_text

# 48 bits: enough to tell apart the constants of one suite, and short enough to read.
HASH_DIGITS = 12

_COMPRESSED_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
_COMPRESSED_BY_COLUMN = (torch.sparse_csc, torch.sparse_bsc)


def tensor_constant_text(tensor: torch.Tensor) -> str:
    """Return a tensor's dtype, shape, stride and device, and a hash of its content if it has one.

    Fake and meta tensors have no content.  The hash depends on dtype, shape and elements, not on
    strides, device or byte order.

    >>> tensor_constant_text(torch.zeros(2))
    'f32[2][1]cpu sha256:703ffecb2179'
    """
    content = _content_hash(tensor)
    return tensor_text(tensor) + (f" sha256:{content}" if content else "")


def _content_hash(tensor: torch.Tensor) -> str | None:
    digest = hashlib.sha256()
    with without_dispatch_modes(), torch.no_grad():
        try:
            for part in _dense_parts(tensor):
                digest.update(f"{dtype_text(part.dtype)}{list(part.shape)}".encode())
                digest.update(_little_endian_bytes(part))
        except (_NoContentError, RuntimeError, NotImplementedError):
            return None
    return digest.hexdigest()[:HASH_DIGITS]


class _NoContentError(Exception):
    """The tensor stands for numbers that are not there."""


def _dense_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the strided tensors that make up ``tensor``, in a fixed order."""
    if not has_content(tensor):
        raise _NoContentError
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names, _context = flatten()
        return [part for name in names for part in _dense_parts(getattr(tensor, name))]
    if tensor.is_quantized:
        return [tensor.int_repr(), tensor.dequantize()]
    if tensor.layout is torch.sparse_coo:
        merged = tensor.coalesce()
        return [merged.indices(), merged.values()]
    if tensor.layout in _COMPRESSED_BY_ROW:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in _COMPRESSED_BY_COLUMN:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _little_endian_bytes(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if plain.is_complex():
        plain = torch.view_as_real(plain).reshape(-1)
    elements = plain.view(torch.uint8).numpy()
    if sys.byteorder == "big":
        elements = elements.reshape(-1, plain.element_size())[:, ::-1].copy()
    return elements.tobytes()
