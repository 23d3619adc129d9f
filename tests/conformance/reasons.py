"""Why ours is right, for each kind of difference; a kind that is not here is unexplained."""

from __future__ import annotations

import re

REASONS: dict[str, str] = {
    "fewer pieces": (
        "A piece is cut only where the graph would have a cycle. torch grows pieces greedily from "
        "the end of the graph and leaves some apart that could be one."
    ),
    "other pieces": (
        "As many pieces, cut elsewhere. Where a node could go to either of two, ours puts it into "
        "the earliest that uses it: a weight's transpose stays with its layer, equal layers stay "
        "equal and are compiled once."
    ),
    "opted out": (
        "`None` and `False` say *not this one*, so that an inner scope can take code out of a "
        "region. torch looks at the key only and compiles it."
    ),
    "unused": "There is nothing to compile in what nobody uses: a piece of it would give nothing.",
    "item": (
        "Values cross a region's border flat, so an item goes with the operation that makes its "
        "container, whatever its own annotation is."
    ),
    "random state": (
        "AOTAutograd cannot trace again the operators that save and restore the random state, so "
        "no piece of ours holds them."
    ),
    "order of effects": (
        "Random numbers, writes and collectives keep their order. Between two random operations of "
        "a region stands one outside: torch makes one piece of both and so draws in another order, "
        "which gives other numbers than eager."
    ),
    "recomputation": (
        "What checkpointing computes again is a piece of its own, of the kind `recompute`, apart "
        "from the region's backward: it can be the forward's compiled piece, and the text shows "
        "which nodes are computed again. torch joins both."
    ),
    "accumulation": "A sum of gradients belongs to no region, whatever annotation it carries.",
    "size": (
        "Tracing puts arithmetic on sizes where it likes. Between nodes of one region it belongs "
        "to the region; outside it would cut the region in two."
    ),
}

# What torch's pass fails with: a pattern of the error's text, and why ours need not.
FAILURES: dict[str, tuple[re.Pattern[str], str]] = {
    "regions in bodies of operators": (
        re.compile(
            r"object has no attribute 'clear'"
            r"|forward\(\) takes 2 positional arguments but"
        ),
        "torch lets the body of an operator take its inputs as one list, as the whole graph does, "
        "but `cond`, `while_loop`, `scan` and `invoke_subgraph` call it with one after the other. "
        "A body of ours is called as before.",
    ),
    "sizes that are expressions": (
        re.compile(r"expected \[\w+\] to have been codegen-ed"),
        "The size of a piece's input is an expression of symbols that no input has by itself. Ours "
        "passes the symbols too.",
    ),
    "annotated streams": (
        re.compile(r"Index not registered in index_to_user_object_weakref"),
        "A `stream` that is only annotated is the number of no stream object; Inductor's code "
        "looks for one. Ours leaves such numbers to the program.",
    ),
    "random numbers under checkpointing": (
        re.compile(r"no rule registered for HigherOrderOperator run_(and_save|with)_rng_state"),
        "AOTAutograd cannot trace again the operators that save and restore the random state, so "
        "no piece of ours holds them; the recomputation draws what the forward drew.",
    ),
}


def failure_kind(error: str) -> str | None:
    """Return the kind of a failure of torch's pass, or None if it is not known."""
    for kind, (pattern, _) in FAILURES.items():
        if pattern.search(error):
            return kind
    return None


def reason(kind: str) -> str | None:
    """Return why ours is right in a kind of difference, or None where nothing explains it."""
    if kind in FAILURES:
        return FAILURES[kind][1]
    return REASONS.get(kind)
