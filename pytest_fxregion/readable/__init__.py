"""A graph's text: :func:`render` for one that goes into a snapshot, :func:`print_readable`.

:func:`readable_in_torch` puts it in the place of torch's own.

The code is the one of torch's ``print_readable(include_stride=True, include_device=True)``.  These
comments are added, each on a line of its own:

``# file: model.py in forward: h = self.up(h)``
    where the nodes below come from, where that changes; ``# file: none`` if nothing is known.
``# region: 0``, ``# inductor_configs: {...}``, ``# <key>: <value>``
    the annotation of the node below, in full.
``# ac_graph_id: 0 - MUST_SAVE``, ``# recompute: MUST_SAVE``
    activation checkpointing; the ids count from 0, in order of appearance in the joint graph (its
    forward and backward keep them), or in the text where it stands alone.
``# gradient accumulation (is_gradient_acc)``
    the node below sums two gradients of one value.
``# value: i64[2][1]cpu sha256:47932c8af051``
    a constant's type and content; the type of a value whose annotation cannot say all of it.
``# kernel: model.add_kernel``, ``# constant_args: {...}``
    the Triton kernel that the node below launches.

A placeholder's tags stand above the first node, with its name before them: ``# x: region: 0``.
"""

from pytest_fxregion.readable.in_torch import readable_in_torch
from pytest_fxregion.readable.writer import print_readable, render

__all__ = ["print_readable", "readable_in_torch", "render"]
