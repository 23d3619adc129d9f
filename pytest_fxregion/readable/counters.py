"""Numbers that torch counts over the whole process in, numbers that count from 0 in one text out.

Printed as they are, they would make a graph's text depend on what the process did before.  Texts
of one compilation share their :class:`Counters`, so that joint graph, forward and backward call one
thing by one number.
"""

from __future__ import annotations

from collections.abc import Hashable

# The arguments of higher-order operators that are an index into a table of the process: of Triton
# kernels, of their constant arguments, of callables that Inductor made.
COUNTED_KEYWORDS = {
    "triton_kernel_wrapper_functional": ("kernel_idx", "constant_args_idx"),
    "triton_kernel_wrapper_mutation": ("kernel_idx", "constant_args_idx"),
}
COUNTED_FIRST_ARGUMENT = {"inductor_compiled_code": "callable_idx"}

# The annotation that torch itself writes: it pairs the forward and the backward call of one
# `invoke_subgraph` (since 2.13).
COUNTED_ANNOTATIONS = frozenset({"call_id"})


class Counters:
    """Numbers things of each kind from 0, in the order in which they are first shown."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[Hashable, int]] = {}

    def number(self, kind: str, value: Hashable) -> int:
        """Return the number of ``value`` among those of its ``kind``."""
        known = self._numbers.setdefault(kind, {})
        return known.setdefault(value, len(known))
