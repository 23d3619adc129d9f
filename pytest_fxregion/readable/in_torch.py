"""Our text wherever torch shows a graph's: ``TORCH_LOGS``, ``tlparse``, a test's own call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from torch import fx

from pytest_fxregion.readable.writer import print_readable


@contextmanager
def readable_in_torch(root: Path | None = None) -> Iterator[None]:
    """While active, ``GraphModule.print_readable`` is :func:`print_readable`, in all threads.

    torch's own raises on a ``recompute`` that is no policy and on a ``custom`` that is no mapping,
    and with it a compilation whose graphs are logged; it cuts annotations at 40 characters and
    shows memory addresses (pytorch#173734).  Strides and devices are always shown, and all tags;
    ``colored`` and ``additional_meta`` mean what they do in torch.
    """

    def own_print_readable(
        gm: fx.GraphModule,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: Sequence[str] | None = None,
    ) -> str:
        return print_readable(
            gm, print_output, root=root, colored=colored, additional_meta=additional_meta or ()
        )

    with patch.object(fx.GraphModule, "print_readable", own_print_readable):
        yield
