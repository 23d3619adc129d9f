"""A script that compiles one region by itself.  In: its body and configuration; out: text.

The script needs torch alone, so that it can go into a report to PyTorch as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

import torch
from torch.fx import GraphModule

from pytest_fxregion._torch.symbols import possible_size

from .symbols import free_symbols_of

_SCRIPT = """\
import torch
import torch._inductor.config
from torch import device, inf, nan  # names that the graph's text uses


class Region(torch.nn.Module):
{code}


def strided(shape, stride, dtype, where):
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if all(shape) else 0
    return torch.testing.make_tensor(extent, dtype=dtype, device=where).as_strided(shape, stride)


operands = [
{operands}
]
with torch.no_grad(), torch._inductor.config.patch({configs}):
    print(torch.compile(Region(), dynamic={dynamic})(*operands))
"""


def repro_script(body: GraphModule, configs: Mapping[str, object]) -> str | None:
    """Write the script; None if the body holds subgraphs or other objects, which text cannot."""
    if holds_objects(body):
        return None
    values = [node.meta["val"] for node in body.graph.find_nodes(op="placeholder")]
    return _SCRIPT.format(
        code=indent(method_text(body), "    "),
        operands=indent("\n".join(f"{_operand(value)}," for value in values), "    "),
        configs=dict(configs),
        dynamic=any(map(free_symbols_of, values)),
    )


def holds_objects(body: GraphModule) -> bool:
    """Whether a graph needs objects that text cannot give: subgraphs, modules, constants."""
    return any(node.op in ("get_attr", "call_module") for node in body.graph.nodes)


def method_text(body: GraphModule) -> str:
    """Return a graph as the ``forward`` of a module, a line for each operation.

    It uses the names ``torch``, ``device``, ``inf`` and ``nan``.
    """
    lines = body.code.strip().splitlines()
    # `;  arg0 = None` frees a value early, which says nothing to a reader.
    return "\n".join(line.split(";  ")[0].rstrip() for line in lines)


def _operand(value: object) -> str:
    if isinstance(value, torch.Tensor):
        shape, stride = (tuple(map(possible_size, s)) for s in (value.shape, value.stride()))
        return f"strided({shape}, {stride}, {value.dtype}, {str(value.device)!r})"
    return str(possible_size(value)) if isinstance(value, torch.SymInt) else repr(value)
