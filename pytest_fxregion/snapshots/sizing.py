"""What follows from another size: strides, and the sizes that a call was given for its result.

A batch of three in place of two is one change, of shapes.  The sizes in ``view(x, [12, 16])`` are
the shape of its result, and the strides of a dense tensor follow from its shape.
"""

from __future__ import annotations

import re

from pytest_fxregion.snapshots.graph import Node

_SIZES = re.compile(r"\[[^\[\]]*\]")
_ANY = "-1"  # a size that a call leaves open


def sizes_of(text: str) -> list[str]:
    """Return the elements of ``[2, 4]``."""
    return [size.strip() for size in text.strip("[]").split(",") if size.strip()]


def gives_only_its_size(before: Node, after: Node) -> bool:
    """Say whether the arguments of a call differ in the sizes of its result and in nothing else."""
    one, other = (_SIZES.findall(node.literal) for node in (before, after))
    types = [_SIZES.findall(node.type) for node in (before, after)]
    if len(one) != len(other) or not all(types) or types[0][0] == types[1][0]:
        return False
    if _SIZES.sub("[]", before.literal) != _SIZES.sub("[]", after.literal):
        return False
    of_result = list(zip(*types, strict=False))  # shapes, and strides where there are any
    return all(
        was == now or any(_is(was, old) and _is(now, new) for old, new in of_result)
        for was, now in zip(one, other, strict=True)
    )


def _is(given: str, sizes: str) -> bool:
    """Say whether sizes that a call was given are those that came out."""
    one, other = sizes_of(given), sizes_of(sizes)
    return len(one) == len(other) and all(
        size in (_ANY, result) for size, result in zip(one, other, strict=True)
    )


def dense_order(shape: str, stride: str) -> tuple[int, ...] | None:
    """Return the order of the dimensions in memory, the outermost first; None if there are gaps.

    Dimensions of one element are left out: their strides say nothing.  Sizes that are symbols are
    not looked into.
    """
    sizes, strides = sizes_of(shape), sizes_of(stride)
    if len(sizes) != len(strides) or not all(map(str.isdecimal, (*sizes, *strides))):
        return None
    of = {
        d: (int(step), int(size)) for d, (step, size) in enumerate(zip(strides, sizes, strict=True))
    }
    order = sorted((d for d, (_, size) in of.items() if size != 1), key=lambda d: (-of[d][0], d))
    elements = 1
    for d in reversed(order):
        step, size = of[d]
        if step != elements:
            return None
        elements *= size
    return tuple(order)


def same_layout(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Say whether two shapes, each with its strides, are dense and in one order in memory."""
    order = dense_order(*old)
    return order is not None and order == dense_order(*new)
