"""Graphs of fx: how their code is written and called, and what their nodes say of values."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch.fx.traceback
from torch import fx
from torch.fx import _lazy_graph_module
from torch.fx import graph as _fx_graph

# Flattens a call's arguments as a graph with structured inputs expects them.
from torch.fx._pytree import tree_flatten_spec as tree_flatten_spec

# The code generator of flat graphs.
from torch.fx.graph import CodeGen as CodeGen

# What shape propagation records of a tensor, in `node.meta["tensor_meta"]`.
from torch.fx.passes.shape_prop import TensorMetadata as TensorMetadata

# A graph module that writes its Python code when it is first called: code writing is most of the
# cost of making one.
LazyGraphModule = _lazy_graph_module._LazyGraphModule

# The code generator of graphs with structured inputs (torch.export).
PyTreeCodeGen = _fx_graph._PyTreeCodeGen


def codegen_of(graph: fx.Graph) -> CodeGen:
    """Return what writes a graph's Python code, and so decides how it is called."""
    return graph._codegen


def without_node_metadata() -> AbstractContextManager[None]:
    """A scope in which new nodes take no metadata from the nodes around them."""
    return torch.fx.traceback.preserve_node_meta(enable=False)
