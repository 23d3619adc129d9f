"""Operators: their schemas, what they are made of, and the Triton kernels that they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import _C, fx

# The operator with a schema, all overloads of one, and the operators that take subgraphs.
from torch._ops import HigherOrderOperator as HigherOrderOperator
from torch._ops import OpOverload as OpOverload
from torch._ops import OpOverloadPacket as OpOverloadPacket
from torch.fx import node as _fx_node

# One argument of an operator's schema: its name, and whether it is written to.
SchemaArgument = _C.Argument

# Functions that fx keeps because of what they do besides computing.
side_effectful_functions = _fx_node._side_effectful_functions

# Those of them that change how every later node runs.
global_state_switches = frozenset(_fx_node._side_effectful_need_to_be_preserved_pre_dispatch)


def schema_of(operator: OpOverload) -> Any:
    """Return an operator's schema: what its arguments are, which alias and which are written."""
    return operator._schema


def decomposition_of(operator: OpOverload) -> Callable[..., Any] | None:
    """Return what an operator is made of, if torch says so.

    ``torch._decomp.decomposition_table``: 2.11 to 2.15.
    """
    from torch._decomp import decomposition_table

    return decomposition_table.get(operator)


def operator_under_rng_state(node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Return the random operator that a node calls under a saved or restored state; else None.

    With its own arguments.  ``rng_prims``: 2.11 to 2.15.
    """
    from torch._prims import rng_prims

    kwargs = dict(node.kwargs)
    if node.target is rng_prims.run_with_rng_state:
        return node.args[1], node.args[2:], kwargs
    if node.target in (rng_prims.run_and_save_rng_state, rng_prims.graphsafe_run_with_rng_state):
        kwargs.pop("rng_state", None)
        return node.args[0], node.args[1:], kwargs
    return None


def triton_kernel(index: int) -> object:
    """Return the user's Triton kernel that a graph calls by ``index``, or None if it is gone.

    A graph cannot hold it, so torch keeps it in a table of the process: ``kernel_side_table``, 2.11
    to 2.15.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.id_to_kernel.get(index)


def triton_constant_args(index: object) -> dict[str, Any]:
    """Return the arguments of that call that a graph cannot hold; none if they are gone."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    if not isinstance(index, int):
        return {}
    return kernel_side_table.constant_args.get(index, {})
