"""What Inductor made of a graph: its program, and the function to call.

An artifact is what ``torch._inductor.standalone_compile(..., aot=True)`` returns.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from pytest_fxregion._torch.tensors import FakeTensorMode


def compiled_graph(artifact: Any) -> Any:
    """Find what Inductor made of an artifact's graph among the wrappers around it; else None."""
    from torch._inductor.output_code import CompiledFxGraph

    pending, seen = [getattr(artifact, "inner_fn", artifact)], set[int]()
    while pending:
        found = pending.pop()
        if isinstance(found, CompiledFxGraph):
            return found
        if id(found) in seen:
            continue
        seen.add(id(found))
        cells = [c.cell_contents for c in getattr(found, "__closure__", None) or () if _filled(c)]
        inner = getattr(found, "compiled_fn", None)
        pending += [cell for cell in (*cells, inner) if callable(cell)]
    return None


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def generated_source(artifact: Any) -> str:
    """Return the program that Inductor generated for an artifact; empty if it cannot be found."""
    found = compiled_graph(artifact)
    return "" if found is None else str(found.source_code)


def output_strides(
    artifact: Any, mode: FakeTensorMode
) -> list[tuple[int | torch.SymInt, ...] | None] | None:
    """Return the strides that Inductor gave each output of an artifact's code.

    An entry is None where the output is no tensor or a stride is not known before it runs; all is
    None if the code cannot be found.  ``CompiledFxGraph.output_strides``: 2.11 to 2.15.
    """
    found = compiled_graph(artifact)
    if found is None or found.output_strides is None:
        return None
    environment = mode.shape_env

    def number(text: Any) -> int | torch.SymInt:
        if str(text).isdigit() or environment is None:
            return int(text)
        return environment.deserialize_symexpr(text)  # type: ignore[return-value]

    return [s if s is None else tuple(map(number, s)) for s in found.output_strides]


# The wrappers between an artifact and its compiled graph that do nothing for a graph without
# autograd, mutated inputs or aliased outputs (2.11 to 2.15).  Any other wrapper is kept.
_TRANSPARENT_WRAPPERS = (
    "DisableContext.__call__.<locals>._fn",
    "aot_module_simplified.<locals>.forward",
    "_create_runtime_wrapper.<locals>.runtime_wrapper",
    "FunctionalizedRngRuntimeWrapper.post_compile.<locals>.wrapper",  # 2.11
    "EffectTokensWrapper.post_compile.<locals>.inner_fn",  # 2.11, around what was just compiled
)

# How the function that Inductor writes refers to operators.
_OPERATOR_PREFIXES = ("torch.ops.", "aten.", "extern_kernels.", "inductor_ops.")


def generated_call(artifact: Any) -> tuple[Any, bool] | None:
    """The function that Inductor generated, and whether it calls operators besides its kernels.

    The function takes a list, which it empties, and gives a sequence.  None if something between it
    and the artifact may matter: input mutation, functionalised random numbers, subclasses,
    autograd, or a wrapper of a torch version that is not known here.
    """
    from torch._inductor.output_code import CompiledFxGraph

    found: Any = getattr(getattr(artifact, "inner_fn", None), "compiled_fn", None)
    while not isinstance(found, CompiledFxGraph):
        found = getattr(found, "compiled_fn", found)
        if isinstance(found, CompiledFxGraph):
            break
        code = getattr(found, "__code__", None)
        if code is None or code.co_qualname not in _TRANSPARENT_WRAPPERS:
            return None
        cells = dict(zip(code.co_freevars, found.__closure__ or (), strict=True))
        if "params_buffers_flat" in cells and cells["params_buffers_flat"].cell_contents:
            return None
        metadata = cells.get("runtime_metadata")
        if metadata and metadata.cell_contents.is_rng_op_functionalized:
            return None
        if "num_tokens" in cells and cells["num_tokens"].cell_contents:
            return None
        inner = [c for n in ("fn", "compiled_fn", "_inner_compiled_fn") if (c := cells.get(n))]
        if len(inner) != 1:
            return None
        found = inner[0].cell_contents
    if found.mutated_input_idxs or found.current_callable is None:
        return None
    body = found.source_code.rpartition("def call(")[2]
    return found.current_callable, not body or any(name in body for name in _OPERATOR_PREFIXES)
