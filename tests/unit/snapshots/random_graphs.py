"""Random graphs and random edits of them, with the changes that a diff should find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from pytest_fxregion.snapshots.graph import (
    AC_GRAPH,
    GRADIENT_ACCUMULATION,
    HOLE,
    RECOMPUTE,
    REGION,
    Node,
)

UNARY = ("sin", "cos", "exp", "neg", "relu", "clone")
BINARY = ("add", "mul", "sub", "mm", "maximum")
TYPES = ("f32[4, 4][4, 1]cuda:0", "bf16[4, 4][4, 1]cuda:0", "f32[8][1]cuda:0")
POLICIES = ("MUST_SAVE", "PREFER_RECOMPUTE")


def target(op: str) -> str:
    return f"torch.ops.aten.{op}.default"


def call(name: str, op: str, inputs: tuple[str, ...], type_: str, literal: str = "") -> Node:
    args = ", ".join(inputs) + literal
    shape = ", ".join(HOLE for _ in inputs) + literal
    return Node(name, "call", target(op), args, inputs, shape, type_)


def random_graph(rng: Random, size: int) -> list[Node]:
    """Return a graph of ``size`` calls between placeholders and an output of all unused values."""
    nodes = [
        Node(f"primals_{k + 1}", "placeholder", "placeholder", "", (), "", rng.choice(TYPES))
        for k in range(rng.randint(1, 4))
    ]
    names: Counter[str] = Counter()
    for _ in range(size):
        recent = [node.name for node in nodes[-8:]]
        anywhere = [node.name for node in nodes]
        op = rng.choice(UNARY + BINARY)
        pool = recent if rng.random() < 0.8 else anywhere
        inputs = tuple(rng.choice(pool) for _ in range(1 if op in UNARY else 2))
        name = f"{op}_{names[op]}" if names[op] else op
        names[op] += 1
        node = call(name, op, inputs, rng.choice(TYPES))
        tags = []
        if rng.random() < 0.3:
            tags.append((REGION, rng.choice("01")))
        if rng.random() < 0.4:
            tags.append((RECOMPUTE, rng.choice(POLICIES)))
        nodes.append(replace(node, tags=tuple(tags)))
    return close(nodes)


def close(nodes: list[Node]) -> list[Node]:
    """Return the graph with one output node, of all values that nothing uses."""
    nodes = [node for node in nodes if node.op != "output"]
    used = {name for node in nodes for name in node.inputs}
    results = tuple(node.name for node in nodes if node.name not in used)
    args = f"({', '.join(results)})"
    shape = f"({', '.join(HOLE for _ in results)})"
    return [*nodes, Node("output", "output", "output", args, results, shape)]


def random_sum(rng: Random, terms: int) -> list[Node]:
    """Return a graph that adds its placeholders, in any order and any steps."""
    nodes = [
        Node(f"primals_{k}", "placeholder", "placeholder", "", (), "", TYPES[0])
        for k in range(terms)
    ]
    parts = [node.name for node in nodes]
    while len(parts) > 1:
        rng.shuffle(parts)
        name = f"add_{len(parts)}"
        nodes.append(call(name, "add", (parts.pop(), parts.pop()), TYPES[0]))
        parts.append(name)
    last = call("cos", "cos", (parts[0],), TYPES[0])
    return close([*nodes, last])


def renamed(nodes: list[Node], offset: int) -> list[Node]:
    """Return the graph with every number in a name changed, as insertions elsewhere change them."""
    fresh: dict[str, str] = {"output": "output"}
    counts: Counter[str] = Counter()
    for node in nodes:
        if node.op != "output":
            base = node.name.partition("_")[0]
            counts[base] += 1
            fresh[node.name] = f"{base}_{counts[base] + offset}"
    return [with_inputs(node, fresh) for node in nodes]


def with_inputs(node: Node, fresh: dict[str, str]) -> Node:
    inputs = tuple(fresh.get(name, name) for name in node.inputs)
    args = node.literal
    for name in inputs:
        args = args.replace(HOLE, name, 1)
    return replace(node, name=fresh.get(node.name, node.name), inputs=inputs, args=args)


def ambiguous(node: Node, nodes: list[Node], uses: dict[str, list[Node]]) -> bool:
    """Say whether another node could as well be the one that went: cos(cos(x)) leaves cos(x)."""
    siblings = {user.name for name in node.inputs for user in uses[name]}
    kin = siblings | set(node.inputs) | {user.name for user in uses.get(node.name, ())}
    kin |= {user.name for name in kin for user in uses.get(name, ())}
    return any(n.name in kin and n.target == node.target for n in nodes if n is not node)


OTHER_TYPE: dict[str, Callable[[str], tuple[str, str]]] = {
    "dtype": lambda text: (text.partition("[")[0], "f16"),
    "shape": lambda text: (text[text.index("[") : text.index("]") + 1], "[16]"),
    "stride": lambda text: (text[text.rindex("[") : text.rindex("]") + 1], "[7]"),
    "device": lambda text: (text.rpartition("]")[2], "cpu"),
}


def _crossed(node: Node, nodes: list[Node], at: int) -> list[Node]:
    """Return the calls right behind a node that it could as well stand behind."""
    crossed: list[Node] = []
    for other in nodes[at + 1 : at + 6]:
        if other.op != "call" or node.name in other.inputs:
            break
        crossed.append(other)
    return crossed


@dataclass(frozen=True)
class Edit:
    """What was done, as the diff should tell it: kind, name of the node, before and after."""

    kind: str
    subject: str
    before: str
    after: str


def edit(
    rng: Random, nodes: list[Node], spared: set[str], serial: int
) -> tuple[list[Node], Edit | None]:
    """Apply one random edit away from the ``spared`` nodes; add what it touches to them."""
    uses: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            uses.setdefault(name, []).append(node)
    free = [
        node
        for node in nodes
        if node.op == "call"
        and node.name not in spared
        and all(user.op == "call" for user in uses.get(node.name, ()))
        and uses.get(node.name)
    ]
    if not free:
        return nodes, None
    node = rng.choice(free)
    op = node.target.split(".")[3]
    spared |= {node.name, *node.inputs, *(user.name for user in uses[node.name])}
    kind = rng.choice(
        (
            *("recompute", "region", "dtype", "added", "removed", "replaced", "arguments"),
            *("acc", "order", "shape", "stride", "device", "tag", "checkpointed", "moved"),
        )
    )
    at = nodes.index(node)

    def swap(new: Node) -> list[Node]:
        return [*nodes[:at], new, *nodes[at + 1 :]]

    def tagged(key: str, value: str) -> tuple[tuple[str, str], ...]:
        return (*((k, v) for k, v in node.tags if k != key), (key, value))

    if kind == "recompute":
        before = node.tag(RECOMPUTE) or "none"
        after = "PREFER_SAVE"
        return swap(replace(node, tags=tagged(RECOMPUTE, after))), Edit(
            kind, node.name, before, after
        )
    if kind == "region":
        before = node.tag(REGION) or ""
        after = "1" if before == "0" else "0"
        members = Counter(other.tag(REGION) for other in nodes if other.name not in spared)
        if not members[after] or (before and not members[before]):
            return nodes, None  # a region that appears or vanishes is told as such
        return swap(replace(node, tags=tagged(REGION, after))), Edit(
            "region of", node.name, before, after
        )
    if kind == "acc":
        if node.tag(GRADIENT_ACCUMULATION) is not None:
            return nodes, None
        new = replace(node, tags=(*node.tags, (GRADIENT_ACCUMULATION, "")))
        return swap(new), Edit(GRADIENT_ACCUMULATION, node.name, "", node.type)
    if kind == "order":
        near = {*node.inputs, *(user.name for user in uses[node.name])}
        if len(set(node.inputs)) < 2 or any(
            n.name in near and n.target == node.target for n in nodes
        ):
            return nodes, None  # the order in a chain of one operation is told of its end
        first, second = node.inputs
        turned = replace(node, inputs=(second, first), args=f"{second}, {first}")
        return swap(turned), Edit(kind, node.name, "", "")
    if kind in OTHER_TYPE:
        before, after = OTHER_TYPE[kind](node.type)
        if before == after:
            return nodes, None
        return swap(replace(node, type=node.type.replace(before, after, 1))), Edit(
            kind, node.name, before, after
        )
    if kind == "tag":
        new = replace(node, tags=tagged("stage", str(serial)))
        return swap(new), Edit(kind, node.name, "stage: none", f"stage: {serial}")
    if kind == "checkpointed":
        if node.tag(RECOMPUTE) is not None:
            return nodes, None
        new = replace(node, tags=(*node.tags, (AC_GRAPH, str(serial)), (RECOMPUTE, "MUST_SAVE")))
        return swap(new), Edit(kind, node.name, "", "MUST_SAVE")
    if kind == "moved":
        crossed = _crossed(node, nodes, at)
        if len(crossed) < 2 or spared & {n.name for n in crossed} or ambiguous(node, nodes, uses):
            return nodes, None  # of two that change places either may be the one that moved
        spared |= {n.name for n in crossed}
        rest = [n for n in nodes if n is not node]
        after_them = rest.index(crossed[-1]) + 1
        return [*rest[:after_them], node, *rest[after_them:]], Edit(kind, node.name, "", "")
    if kind == "arguments":
        new = replace(node, literal=node.literal + ", 7", args=node.args + ", 7")
        return swap(new), Edit(kind, node.name, node.args, new.args)
    if kind == "replaced":
        other = "tan" if op in UNARY else "atan2"
        new = replace(node, target=target(other))
        return swap(new), Edit(kind, node.name, f"aten.{op}.default", f"aten.{other}.default")
    if kind == "added":
        # Between a node and all its users.
        fresh = call(f"tanh_{serial}", "tanh", (node.name,), node.type)
        moved = {node.name: fresh.name}
        rest = [replace(with_inputs(n, moved), name=n.name) for n in nodes[at + 1 :]]
        spared.add(fresh.name)
        return [*nodes[: at + 1], fresh, *rest], Edit(kind, fresh.name, "", "aten.tanh.default")
    if op not in UNARY or ambiguous(node, nodes, uses):
        return nodes, None
    moved = {node.name: node.inputs[0]}
    rest = [replace(with_inputs(n, moved), name=n.name) for n in nodes[at + 1 :]]
    return [*nodes[:at], *rest], Edit("removed", node.name, f"aten.{op}.default", "")
