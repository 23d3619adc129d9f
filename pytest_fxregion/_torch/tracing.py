"""How AOTAutograd traces a joint graph and splits it in two."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

# The builder of backends on AOTAutograd: traces, partitions and calls the two compilers.
from torch._dynamo.backends.common import aot_autograd as aot_autograd
from torch._functorch import partitioners
from torch._functorch._aot_autograd import graph_capture, graph_compile, streams

# Splits the joint graph in two, saving what eager would save; does what the AC tags ask for.
from torch._functorch.partitioners import default_partition as default_partition

# Which tracer is recording, and which node of it a tensor stands for.
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from pytest_fxregion._torch.containers import tree_leaves
from pytest_fxregion._torch.tensors import FunctionalTensor

# Where the joint graph's tracer finishes (and copies forward metadata); replaced by our own passes.
joint_capture = graph_capture

# Where operations with Python floats are made ones with tensors (`tensorify_python_scalars`).
joint_compile = graph_compile

# Where waits between streams are put into the backward, by `custom["stream"]`; 2.11 to 2.15.
joint_streams = streams

# Splits it so that a budget of memory is kept: honours `region_activation_memory_budget`, 2.13 on.
min_cut_partition = partitioners.min_cut_rematerialization_partition


def current_tracer() -> Any | None:
    """Return the tracer that records what runs now, or None outside of tracing."""
    mode = get_proxy_mode()
    return None if mode is None else mode.tracer


def node_of_traced_tensor(tensor: torch.Tensor, tracer: Any) -> fx.Node | None:
    """Return the node of ``tracer``'s graph that computes ``tensor``, or None if it has none."""
    if isinstance(tensor, FunctionalTensor):
        tensor = torch._from_functional_tensor(tensor.elem)
    slot = get_proxy_slot(tensor, tracer, None)
    return None if slot is None else slot.proxy.node


def written_inputs(graph: fx.Graph) -> list[str]:
    """Return the inputs of a joint graph that AOTAutograd writes to once the forward is over.

    ``InputMutationAOTOutput`` and ``meta["desc"]``: 2.11 to 2.15.
    """
    from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput

    returned = tree_leaves(graph.output_node().meta.get("desc"))
    written = [d.mutated_input for d in returned if isinstance(d, InputMutationAOTOutput)]
    return [p.name for p in graph.find_nodes(op="placeholder") if p.meta.get("desc") in written]


def memory_budget(node: fx.Node) -> float | None:
    """Return the budget that ``region_activation_memory_budget`` annotates a node with, 2.13 on."""
    key = getattr(torch.fx.traceback, "MEMORY_BUDGET_ANNOTATION_KEY", None)
    custom = node.meta.get("custom")
    return custom.get(key) if isinstance(custom, dict) else None


def without_merging_of_equal_nodes() -> AbstractContextManager[None]:
    """A scope in which torch's partitioner leaves equal nodes alone: it heeds no annotation."""
    from torch._functorch import config

    return config.patch(cse=False)  # type: ignore[no-any-return]
