"""Failures that have a reason outside of this project; ``known.md`` says each in full."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason's name in ``known.md``; what a failure's text holds, and what its program does.

    ``torchs_own``: only where torch alone fails on the program as well.
    """

    name: str
    said: str
    done: str = ""
    torchs_own: bool = False


REASONS = (
    Reason(
        "eager refuses: what autograd saved is written to",
        r"in _run_eager\n[\s\S]*RuntimeError: one of the variables needed for gradient computation "
        r"has been modified by an inplace operation",
        r"_\(|\] = ",
    ),
    Reason(
        "eager refuses: the whole is written to that was split into what is used",
        r"in _run_eager\n[\s\S]*a view and its base or another view of its base has been modified",
        r"\.(chunk|split)\(",
    ),
    Reason(
        "eager refuses: the whole is written to that a view was taken of under no_grad",
        r"in _run_eager\n[\s\S]*RuntimeError: A view was created in no_grad mode and its base or "
        r"another view of its base has been modified",
        r"with torch\.no_grad\(\):",
    ),
    Reason(
        "eager refuses: what is written to overlaps with what is read",
        r"in _run_eager\n[\s\S]*RuntimeError: unsupported operation: some elements of the input "
        r"tensor and the written-to tensor refer to a single memory location",
        r"_\(|\] = ",
    ),
    Reason(
        "eager refuses: what selective checkpointing keeps is written to",
        r"in _run_eager\n[\s\S]*RuntimeError: Tensor cached during selective activation checkpoint "
        r"has been mutated",
        r"create_selective_checkpoint_contexts",
    ),
    Reason(
        "eager refuses: a product of two dtypes",
        r"in _run_eager\n[\s\S]*RuntimeError: .*must have the same dtype",
        r"with torch\.autocast\(",
    ),
    Reason(
        "nothing compiled: the graph breaks",
        r"torch\.compile made no graph of the function and ran it eagerly",
        r"Gate\.apply\((\w+), \1\)|graph_break\(\)",
    ),
    Reason(
        "a view taken under no_grad is given a gradient by AOTAutograd",
        r"gradients of outputs are there, and \d+ results of this call can take one|"
        r"gradient of \w+: only the regional run has it",
        r"with torch\.no_grad\(\):",
        torchs_own=True,
    ),
    Reason(
        "a hook inside of a checkpointed function is lost by dynamo",
        r"do not compute what eager does|gradients are not summed as in eager|"
        r"of Node 'register_hook' does not belong to this Graph|"
        r"in _method_register_hook\n[\s\S]*Attempting to move a Node into a different Graph",
        r"def stretch\d+\(.*\n(?:        .*\n)*?        +\w+\.register_hook",
        torchs_own=True,
    ),
    Reason(
        "an autograd.Function of the same tensor twice gives one of its gradients",
        r"do not compute what eager does|gradients are not summed as in eager",
        r"Gate\.apply\((\w+), \1\)",
        torchs_own=True,
    ),
    Reason(
        "a hook on a view that is returned is lost by AOTAutograd",
        r"do not compute what eager does",
        r"\bv\d+\.register_hook",
        torchs_own=True,
    ),
    Reason(
        "a hook on an argument that is written to afterwards gets the last value's gradient",
        r"do not compute what eager does",
        r"\b([abc])\.register_hook\((?:.*\n)+?.*\b\1(?:\.\w+_\(|\[.*\] = )",
        torchs_own=True,
    ),
    Reason(
        "what a graph hands on in vain gets zeros for a gradient",
        r"gradient of \w+: only the regional run has it",
        r"Gate\.apply\((\w+), \1\)|graph_break\(\)",
        torchs_own=True,
    ),
    Reason(
        "inference through a checkpoint that draws random numbers is refused",
        r"`forward-loss-backward` graph does not support RNG ops in recompute regions",
        r"= checkpoint\(",
        torchs_own=True,
    ),
    Reason(
        "what autograd saved is written to in a checkpoint, and only tracing notices",
        r"in _call_user_compiler\n[\s\S]*one of the variables needed for gradient computation has "
        r"been modified by an inplace operation",
        r"def stretch\d+\(.*\n(?:        .*\n)*?        +.*(?:_\(|\] = )",
        torchs_own=True,
    ),
    Reason(
        "a hook in a reentrant checkpoint is refused where the graph breaks",
        r"cannot register a hook on a tensor that doesn't require gradient",
        r"def stretch\d+\(.*\n(?:        .*\n)*?        +\w+\.register_hook[\s\S]*"
        r"use_reentrant=True",
        torchs_own=True,
    ),
    Reason(
        "buffers that a checkpointed function changes are changed once",
        r"after the call: error",
        r"def stretch\d+\(.*\n(?:        .*\n)*?        +.*\bnorm\(",
        torchs_own=True,
    ),
    Reason(
        "a hook on an argument without a gradient is called with None",
        r"must be Tensor, not NoneType|unsupported operand type\(s\) for [*+]: 'NoneType'",
        r"\b[abc]\.register_hook",
        torchs_own=True,
    ),
    Reason(
        "a power with a dynamic exponent has no backward",
        r"NYI SymInt equality",
        r"\*\* n\b",
        torchs_own=True,
    ),
)


def explanation(text: str, source: str, torch_fails: Callable[[], bool]) -> str | None:
    """Return the name of the reason why ``source`` failed with ``text``, or None.

    ``torch_fails`` tries the program with torch alone, which some reasons have to be true of.
    """
    for reason in REASONS:
        said, done = re.search(reason.said, text), re.search(reason.done, source)
        if said and done and (not reason.torchs_own or torch_fails()):
            return reason.name
    return None
