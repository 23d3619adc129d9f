"""Random small programs: Hypothesis draws one as data, and its text is a whole test file.

A :class:`Program` is inputs, statements and results.  Shapes are known while it is drawn, so that
every program is one that eager can run, but for what only running tells (a value that autograd had
saved is written to).  Sizes are two to six: what is tried is what the compiler does with structure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """One statement."""

    text: str

    def lines(self) -> Iterator[str]:
        """Yield the source lines."""
        yield self.text


@dataclass(frozen=True)
class Block:
    """Statements under a head: a ``with``, or a function."""

    head: str
    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """Yield the source lines, the body's indented."""
        yield self.head
        for statement in self.body:
            yield from (f"    {line}" for line in statement.lines())
        if not self.body:
            yield "    pass"


@dataclass(frozen=True)
class Several:
    """Statements without a head."""

    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """Yield the source lines."""
        for statement in self.body:
            yield from statement.lines()


Statement = Line | Block | Several


@dataclass(frozen=True)
class Input:
    """An argument of the program's function, and the expression that makes it."""

    name: str
    made_by: str


@dataclass(frozen=True)
class Program:
    """A function with its inputs.  ``str`` gives a whole test file."""

    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    dynamic: bool
    structured: bool = False

    def __str__(self) -> str:
        body = Block(
            f"def function({', '.join(i.name for i in self.inputs)}):",
            (*self.statements, Line(f"return {self._returned()}")),
        )
        made = (Line(f"{i.name} = {i.made_by}") for i in self.inputs)
        arguments = ", ".join(("function", *(i.name for i in self.inputs)))
        dynamic = ", dynamic=True" if self.dynamic else ""
        test = Block(
            "def test_program(fxregion):",
            (*made, Line(f"fxregion({arguments}{dynamic}).check()")),
        )
        function = "\n".join(body.lines())
        used = [text for name, text in _DEFINITIONS.items() if f"{name}" in function]
        definitions = "".join(f"{text.strip()}\n\n\n" for text in used)
        checked = "\n".join(test.lines())
        imports = "\n".join(
            line for word, line in _IMPORTS if word in definitions + function + checked
        )
        return f"{imports}\n\n\n{definitions}{function}\n\n\n{checked}\n"

    def _returned(self) -> str:
        if self.structured:
            return f'{{"first": {self.results[0]}, "all": [{", ".join(self.results)}]}}'
        return self.results[0] if len(self.results) == 1 else f"({', '.join(self.results)})"

    @property
    def operations(self) -> int:
        """How many statements there are, in blocks too."""
        return _count(self.statements)


# Arguments that are used by name.
MODULES = {
    "linear": "torch.nn.Linear(6, 6).to(fxregion.device)",
    "norm": "torch.nn.BatchNorm1d(6).to(fxregion.device)",
    "mlp": "torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.GELU(), torch.nn.Linear(4, 6))"
    ".to(fxregion.device)",
}
_ARGUMENTS = {"i": "fxregion.randint(0, 2, (3,))", "s": "0.5", "n": "2", **MODULES}

_IMPORTS = (
    ("torch", "import torch"),
    ("F.", "import torch.nn.functional as F"),
    ("annotate(", "from torch.fx.traceback import annotate"),
    (" region(", "from pytest_fxregion import region"),
    ("checkpoint(", "from torch.utils.checkpoint import checkpoint"),
    ("CheckpointPolicy", "from torch.utils.checkpoint import CheckpointPolicy"),
    (
        "create_selective_checkpoint_contexts",
        "from torch.utils.checkpoint import create_selective_checkpoint_contexts",
    ),
    ("partial(", "from functools import partial"),
)

# What programs may use besides torch; a definition is printed where its name is used.
_DEFINITIONS = {
    "Twice": """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g + g
""",
    "Cube": """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x
""",
    "Gate": """
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        s = torch.sigmoid(y)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * s, g * x * s * (1 - s)
""",
    "Waves": """
class Waves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * torch.cos(x) - h * torch.sin(x)
""",
    "AnnotatedBackward": """
class AnnotatedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with annotate({"compile_with_inductor": {"inductor_region": "inside"}}):
            t = x.tanh()
            return g * (1 - t * t)
""",
    "keep_matmuls": """
def keep_matmuls(ctx, op, *args, **kwargs):
    kept = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE
""",
    "recompute_matmuls": """
def recompute_matmuls(ctx, op, *args, **kwargs):
    again = (torch.ops.aten.mm.default, torch.ops.aten.sin.default)
    return CheckpointPolicy.MUST_RECOMPUTE if op in again else CheckpointPolicy.PREFER_SAVE
""",
}


@dataclass(frozen=True)
class Value:
    """A tensor that later statements can name.

    ``written``: whether it may be written to in place without autograd's refusing.  ``smooth``: a
    floating-point value, not an index.
    """

    name: str
    shape: Shape
    grad: bool
    writable: bool = False
    leaf: bool = False


# Same shape in and out.
_POINTWISE = (
    "torch.sin({x})",
    "torch.cos({x})",
    "torch.tanh({x})",
    "torch.sigmoid({x})",
    "torch.relu({x})",
    "F.gelu({x})",
    "F.silu({x})",
    "F.softplus({x})",
    "{x} * 0.5 + 1",
    "{x} * {x}",
    "-{x}",
    "torch.exp(-{x} * {x})",
    "torch.log1p({x} * {x})",
    "torch.sqrt({x} * {x} + 1)",
    "{x} / (1 + {x}.abs())",
    "{x}.clamp(-1, 1)",
    "torch.where({x} > 0, {x}, 0.1 * {x})",
    "{x}.masked_fill({x} > 0.5, 0.25)",
    "{x}.clone()",
    "{x}.detach()",
    "{x}.contiguous()",
    "{x}.double().sin().float()",
    "{x}.to(torch.bfloat16).float()",
    "F.softmax({x}, -1)",
    "{x}.cumsum(0)",
    "{x}.flip(0)",
    "{x}.roll(1, -1)",
    "torch.zeros_like({x}) + {x}",
    "{x} * {x}.shape[0]",
    "{x} + torch.arange({x}.shape[-1], device={x}.device)",
    "F.layer_norm({x}, {x}.shape[-1:])",
    "{x}.sort(-1).values",
    "torch.tril({x}) if {x}.dim() > 1 else {x} * 1",
    "Twice.apply({x})",
    "Cube.apply({x})",
    "AnnotatedBackward.apply({x})",
)
_RANDOM = (
    "F.dropout({x}, 0.5)",
    "F.dropout({x}, 0.2)",
    "{x} + torch.rand_like({x})",
    "{x} * torch.bernoulli(torch.full_like({x}, 0.5))",
    "{x} + torch.randn({x}.shape, device={x}.device)",
)
# Two operands that broadcast.
_BINARY = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / (1 + {y} * {y})",
    "torch.maximum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y})",
    "torch.lerp({x}, {y}, 0.3)",
    "torch.addcmul({x}, {x}, {y})",
    "{x} + {y} * 2",
)
# The shape that a reduction leaves.
_REDUCTIONS: tuple[tuple[str, Callable[[Shape], Shape]], ...] = (
    ("{x}.sum()", lambda s: ()),
    ("{x}.mean()", lambda s: ()),
    ("{x}.sum(0)", lambda s: s[1:]),
    ("{x}.mean(-1)", lambda s: s[:-1]),
    ("{x}.mean(-1, keepdim=True)", lambda s: (*s[:-1], 1)),
    ("{x}.amax(0)", lambda s: s[1:]),
    ("{x}.logsumexp(-1)", lambda s: s[:-1]),
    ("{x}.var(-1, unbiased=False)", lambda s: s[:-1]),
    ("({x} * {x}).sum(0, keepdim=True)", lambda s: (1, *s[1:])),
    ("{x}.max(-1).values", lambda s: s[:-1]),
    ("torch.linalg.vector_norm({x} + 2, dim=-1)", lambda s: s[:-1]),
)
# Views of any tensor with a dimension.
_VIEWS: tuple[tuple[str, Callable[[Shape], Shape]], ...] = (
    ("{x}.transpose(0, -1)", lambda s: (s[-1], *s[1:-1], s[0]) if len(s) > 1 else s),
    ("{x}.unsqueeze(0)", lambda s: (1, *s)),
    ("{x}[..., None]", lambda s: (*s, 1)),
    ("{x}[:1]", lambda s: (1, *s[1:])),
    ("{x}[..., -1]", lambda s: s[:-1]),
    ("{x}[0]", lambda s: s[1:]),
    ("{x}[..., ::2]", lambda s: (*s[:-1], (s[-1] + 1) // 2)),
    ("{x}.narrow(0, 0, 1)", lambda s: (1, *s[1:])),
    ("{x}.reshape(-1)", lambda s: (math.prod(s),)),
    ("{x}.view_as({x})", lambda s: s),
    ("{x}.unsqueeze(0).expand(2, *{x}.shape)", lambda s: (2, *s)),
    ("{x}.movedim(0, -1)", lambda s: (*s[1:], s[0])),
)
# Two results.
_PAIRS = ("{x}.chunk(2, 0)", "{x}.split({half}, 0)", "Waves.apply({x})")
_WRITES = (
    "{v}.add_(1)",
    "{v}.mul_(0.5)",
    "{v}.relu_()",
    "{v}.sin_()",
    "{v}.zero_()",
    "{v}.fill_(0.5)",
    "{v}.clamp_(-1, 1)",
)
_WRITES_ONE = ("{v}.add_({y})", "{v}.mul_({y})", "{v}.copy_({y})", "{v}.sub_({y}, alpha=0.5)")
_HOOKS = ("lambda g: g * 2", "lambda g: g + g", "lambda g: torch.sin(g)", "lambda g: None")

_CONFIGS = (
    '{"emulate_precision_casts": True}',
    '{"epilogue_fusion": False}',
    '{"max_fusion_size": 1}',
    '{"split_reductions": False}',
)
_VALUES = (
    "0",
    '"yes"',
    '{"inductor_region": "a"}',
    '{"inductor_region": "b"}',
    '{"inductor_region": 1}',
    "None",
    "False",
    *(f'{{"inductor_configs": {configs}}}' for configs in _CONFIGS),
    f'{{"inductor_region": "a", "inductor_configs": {_CONFIGS[0]}}}',
)
SCOPES = (
    *(f'annotate({{"compile_with_inductor": {value}}})' for value in _VALUES),
    'annotate({"stage": 1})',
    "region()",
    'region("a")',
    f'region("b", configs={_CONFIGS[1]})',
    "region(False)",
    'region("a", stage=2)',
)
_CHECKPOINTS = (
    "use_reentrant=False",
    "use_reentrant=True",
    "use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, keep_matmuls)",
    "use_reentrant=False, "
    "context_fn=partial(create_selective_checkpoint_contexts, recompute_matmuls)",
)
_SHAPES: tuple[Shape, ...] = ((4, 6), (6, 4), (6, 6), (4, 4), (6,), (4, 1), (2, 4, 6))


@dataclass
class _Drawing:
    """One program while it is drawn: what can be named at this point, and how it is nested."""

    draw: Any  # hypothesis' DrawFn, of any type of value
    values: list[Value] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))
    budget: int = 0
    checkpointed: bool = False
    without_grad: bool = False

    def pick(self, candidates: Sequence[Value]) -> Value:
        """Draw a value, often one of the last: programs are deep rather than wide."""
        last = len(candidates) - 1
        back: int = min(self.draw(st.integers(0, last)), self.draw(st.integers(0, last)))
        return candidates[last - back]

    def one_of(self, choices: Sequence[str]) -> str:
        chosen: str = self.draw(st.sampled_from(choices))
        return chosen

    def name(self, prefix: str = "v") -> str:
        return f"{prefix}{next(self.names)}"

    def let(self, expression: str, shape: Shape, *sources: Value, fresh: bool = True) -> Line:
        """Assign a new value; ``fresh`` where it is no view of its sources."""
        grad = not self.without_grad and any(v.grad for v in sources)
        grad = grad and not expression.endswith(".detach()")
        value = Value(self.name(), shape, grad, writable=expression.endswith("clone()") and fresh)
        self.values.append(value)
        return Line(f"{value.name} = {expression}")

    # --- statements ---

    def statements(self, depth: int) -> tuple[Statement, ...]:
        """Draw statements until the budget, or here and there the block, is at its end."""
        made: list[Statement] = []
        while self.budget > 0 or (depth and not made):
            made.append(self.statement(depth))
            if depth and self.draw(st.integers(0, 3)) == 0:
                break
        return tuple(made)

    def statement(self, depth: int) -> Statement:
        self.budget -= 1
        kinds = [
            *(["pointwise"] * 4),
            *(["binary"] * 4),
            *(["reduction", "view", "view", "matmul", "matmul", "pair", "index", "cat"]),
            *(
                [
                    "random",
                    "write",
                    "write",
                    "write",
                    "hook",
                    "hook",
                    "gate",
                    "layer",
                    "number",
                    "module",
                ]
            ),
        ]
        kinds += ["attention"] if self.draw(st.integers(0, 3)) == 0 else []
        kinds += ["break"] if self.draw(st.integers(0, 9)) == 0 else []
        if depth < 3:
            kinds += ["annotated"] * (14 if depth == 0 else 4)
            kinds += ["autocast"] if self.draw(st.integers(0, 3)) == 0 else []
            kinds += ["no_grad"]
            kinds += [] if self.checkpointed and depth > 1 else ["checkpoint"] * 2
        kind = self.one_of(kinds)
        made: Statement | None = getattr(self, f"_{kind}")(depth)
        return made if made is not None else self._pointwise(depth)

    def _pointwise(self, _depth: int) -> Statement:
        x = self.pick(self.values)
        expression = self.one_of(_POINTWISE)
        if not x.shape and any(part in expression for part in ("shape", "(0)", "-1)")):
            expression = "torch.sin({x})"
        return self.let(expression.format(x=x.name), x.shape, x)

    def _random(self, _depth: int) -> Statement:
        x = self.pick(self.values)
        return self.let(self.one_of(_RANDOM).format(x=x.name), x.shape, x)

    def _binary(self, _depth: int) -> Statement | None:
        x = self.pick(self.values)
        fitting = [y for y in self.values if broadcast(x.shape, y.shape) is not None]
        y = self.pick(fitting)
        shape = broadcast(x.shape, y.shape)
        assert shape is not None
        return self.let(self.one_of(_BINARY).format(x=x.name, y=y.name), shape, x, y)

    def _gate(self, _depth: int) -> Statement | None:
        x = self.pick(self.values)
        y = self.pick([y for y in self.values if y.shape == x.shape])
        return self.let(f"Gate.apply({x.name}, {y.name})", x.shape, x, y)

    def _reduction(self, _depth: int) -> Statement | None:
        x = self._with_dimension()
        expression, shape = self.draw(st.sampled_from(_REDUCTIONS))
        return None if x is None else self.let(expression.format(x=x.name), shape(x.shape), x)

    def _view(self, _depth: int) -> Statement | None:
        x = self._with_dimension()
        expression, shape = self.draw(st.sampled_from(_VIEWS))
        if x is None or math.prod(shape(x.shape)) > 200:
            return None
        line = self.let(expression.format(x=x.name), shape(x.shape), x)
        writable = x.writable and "expand" not in expression and "reshape" not in expression
        self.values[-1] = replace(self.values[-1], writable=writable)
        return line

    def _pair(self, _depth: int) -> Statement | None:
        x = self._with_dimension()
        if x is None or x.shape[0] % 2:
            return None
        expression = self.one_of(_PAIRS)
        shape = x.shape if "Waves" in expression else (x.shape[0] // 2, *x.shape[1:])
        first, second = self.name(), self.name()
        grad = x.grad and not self.without_grad
        self.values += [Value(first, shape, grad), Value(second, shape, grad)]
        text = expression.format(x=x.name, half=x.shape[0] // 2)
        return Line(f"{first}, {second} = {text}")

    def _matmul(self, _depth: int) -> Statement | None:
        pairs = []
        matrices = [v for v in self.values if len(v.shape) == 2]
        for x in matrices:
            for y in matrices:
                if x.shape[1] == y.shape[0]:
                    pairs.append(("{x} @ {y}", x, y, (x.shape[0], y.shape[1])))
                if x.shape[1] == y.shape[1]:
                    pairs.append(("F.linear({x}, {y})", x, y, (x.shape[0], y.shape[0])))
                    pairs.append(("{x} @ {y}.t()", x, y, (x.shape[0], y.shape[0])))
        if not pairs:
            return None
        expression, x, y, shape = self.draw(st.sampled_from(pairs))
        return self.let(expression.format(x=x.name, y=y.name), shape, x, y)

    def _cat(self, _depth: int) -> Statement | None:
        x = self._with_dimension()
        if x is None:
            return None
        y = self.pick([y for y in self.values if y.shape == x.shape])
        if math.prod(x.shape) > 100:
            return None
        if self.draw(st.booleans()):
            return self.let(f"torch.stack(({x.name}, {y.name}))", (2, *x.shape), x, y)
        shape = (2 * x.shape[0], *x.shape[1:])
        return self.let(f"torch.cat(({x.name}, {y.name}))", shape, x, y)

    def _index(self, _depth: int) -> Statement | None:
        long = [v for v in self.values if v.shape and v.shape[0] >= 2]
        if not long:
            return None
        x = self.pick(long)
        expression, shape = self.draw(
            st.sampled_from(
                (
                    ("{x}[i]", (3, *x.shape[1:])),
                    ("{x}[[1, 0]]", (2, *x.shape[1:])),
                    ("{x}.index_select(0, i)", (3, *x.shape[1:])),
                    ("torch.zeros_like({x}).index_add(0, i, {x}[i])", x.shape),
                    ("{x}.index_put((i,), {x}[0] * 2)", x.shape),
                    ("{x}.take_along_dim({x}.argsort(0), 0)", x.shape),
                    ("{x} * torch.tensor([2.0], device={x}.device)", x.shape),
                )
            )
        )
        return self.let(expression.format(x=x.name), shape, x)

    def _write(self, _depth: int) -> Statement:
        writable = [v for v in self.values if v.writable]
        if writable and self.draw(st.integers(0, 2)):
            return self._write_to(writable)
        x = self.pick(self.values)
        copied = self.let(f"{x.name}.clone()", x.shape, x)
        return Several((copied, self._write_to(self.values[-1:])))

    def _write_to(self, writable: Sequence[Value]) -> Statement:
        target = self.pick(writable)
        fitting = [y for y in self.values if broadcast(y.shape, target.shape) == target.shape]
        if self.draw(st.booleans()):
            return Line(self.one_of(_WRITES).format(v=target.name))
        y = self.pick(fitting)
        if y.grad and not target.grad and not self.without_grad:
            # What is written becomes a result that requires a gradient, its views and bases too.
            self.values = [replace(v, grad=True) if v.writable else v for v in self.values]
        if target.shape and self.draw(st.booleans()):
            rest = [
                y for y in self.values if broadcast(y.shape, target.shape[1:]) == target.shape[1:]
            ]
            if rest:
                return Line(f"{target.name}[0] = {self.pick(rest).name}")
        return Line(self.one_of(_WRITES_ONE).format(v=target.name, y=y.name))

    def _hook(self, _depth: int) -> Statement | None:
        hooked = [v for v in self.values if v.grad]
        if not hooked or self.without_grad:
            return None
        # Most of them on arguments: dynamo breaks the graph at any other.
        leaves = [v for v in hooked if v.leaf]
        if leaves and self.draw(st.integers(0, 4)):
            hooked = leaves
        return Line(f"{self.pick(hooked).name}.register_hook({self.one_of(_HOOKS)})")

    def _number(self, _depth: int) -> Statement:
        x = self.pick(self.values)
        expression = self.one_of(("{x} * s", "{x} + n", "{x} * (s + n)", "{x} ** n * s"))
        return self.let(expression.format(x=x.name), x.shape, x)

    def _module(self, _depth: int) -> Statement | None:
        fitting = [v for v in self.values if len(v.shape) == 2 and v.shape[-1] == 6]
        if not fitting:
            return None
        x = self.pick(fitting)
        module = self.one_of(tuple(MODULES))
        many = x.shape[0] > 1 or module != "norm"  # a batch norm needs more than one row
        return self.let(f"{module}({x.name})", x.shape, replace(x, grad=True)) if many else None

    def _attention(self, _depth: int) -> Statement | None:
        fitting = [v for v in self.values if len(v.shape) == 3 and v.shape[-1] > 1]
        if not fitting:
            return None
        x = self.pick(fitting)
        y = self.pick([v for v in fitting if v.shape == x.shape])
        causal = self.one_of(("", ", is_causal=True"))
        call = f"F.scaled_dot_product_attention({x.name}, {y.name}, {x.name}{causal})"
        return self.let(call, x.shape, x, y)

    def _break(self, _depth: int) -> Statement:
        return Line("torch._dynamo.graph_break()")

    # --- blocks ---

    def _layer(self, depth: int) -> Statement | None:
        """A function of one tensor that is called twice: equal regions, and shared values."""
        x = self._with_dimension()
        if x is None or depth > 1:
            return None
        inner = replace(self, values=[replace(x, writable=False, leaf=False)], budget=2)
        function = self.name("layer")
        with_annotation = self.draw(st.booleans())
        body: tuple[Statement, ...] = tuple(
            inner._pointwise(depth)
            if self.draw(st.booleans())
            else inner._binary(depth) or Line("")
            for _ in range(2)
        )
        result = next((v for v in reversed(inner.values) if v.shape == x.shape), x)
        if with_annotation:
            body = (Block(f"with {self.one_of(SCOPES)}:", body),)
        self.budget -= 1
        define = Block(f"def {function}({x.name}):", (*body, Line(f"return {result.name}")))
        first = self.let(f"{function}({x.name})", x.shape, x)
        second = self.let(f"{function}({self.values[-1].name})", x.shape, x)
        return Several((define, first, second))

    def _autocast(self, depth: int) -> Statement:
        return Block('with torch.autocast("cuda", torch.bfloat16):', self.statements(depth + 1))

    def _annotated(self, depth: int) -> Statement:
        return Block(f"with {self.one_of(SCOPES)}:", self.statements(depth + 1))

    def _no_grad(self, depth: int) -> Statement:
        inner = replace(self, without_grad=True)
        body = inner.statements(depth + 1)
        self.budget = inner.budget
        return Block("with torch.no_grad():", body)

    def _checkpoint(self, depth: int) -> Statement:
        before = list(self.values)
        taken = list(
            {
                v.name: v for v in (self.pick(before) for _ in range(self.draw(st.integers(1, 3))))
            }.values()
        )
        function = self.name("stretch")
        # A checkpoint's own arguments are not written to: recomputing would write twice.
        inner = replace(
            self,
            checkpointed=True,
            values=[replace(v, writable=False, leaf=False) for v in taken],
        )
        inner.budget = min(self.budget, 4)
        spent = inner.budget
        body = inner.statements(depth + 1)
        self.budget -= spent - inner.budget
        made = [v for v in inner.values if v not in taken and v.name not in {t.name for t in taken}]
        result = inner.pick(made or inner.values)
        grad = not self.without_grad and any(v.grad for v in taken)
        value = Value(self.name(), result.shape, grad and result.grad)
        self.values = [*before, value]
        names = ", ".join(v.name for v in taken)
        how = self.one_of(_CHECKPOINTS)
        define = Block(f"def {function}({names}):", (*body, Line(f"return {result.name}")))
        call = Line(f"{value.name} = checkpoint({function}, {names}, {how})")
        return Several((define, call))

    def _with_dimension(self) -> Value | None:
        fitting = [v for v in self.values if v.shape and all(v.shape)]
        return self.pick(fitting) if fitting else None


@st.composite
def programs(draw: st.DrawFn, *, longest: int = 10) -> Program:
    """Draw a program of up to ``longest`` statements, blocks not counted."""
    shapes = draw(st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=3))
    drawing = _Drawing(draw)
    inputs = []
    for number, shape in enumerate(shapes):
        name = "abc"[number]
        grad = number == 0 or draw(st.integers(0, 3)) > 0
        sizes = ", ".join(map(str, shape))
        made = f"fxregion.randn({sizes}{', requires_grad=True' if grad else ''})"
        inputs.append(Input(name, made))
        drawing.values.append(Value(name, shape, grad, writable=not grad, leaf=True))
    drawing.budget = draw(st.integers(4, longest))
    statements = drawing.statements(0)
    if all(v.leaf for v in drawing.values):  # hooks and writes alone are no graph
        first = drawing.values[0]
        statements = (*statements, drawing.let(f"torch.sin({first.name})", first.shape, first))
    names = _results(drawing, statements)
    program = Program(
        tuple(inputs), statements, names, draw(st.integers(0, 3)) == 0, draw(st.integers(0, 7)) == 0
    )
    words = set(re.findall(r"\w+", "\n".join(line for x in statements for line in x.lines())))
    used = tuple(Input(name, made) for name, made in _ARGUMENTS.items() if name in words)
    program = replace(program, inputs=(*program.inputs, *used))
    return program


def _results(drawing: _Drawing, statements: Sequence[Statement]) -> tuple[str, ...]:
    """What nothing uses, the last of it, so that little of a program is dead; and other values."""
    text = "\n".join(line for statement in statements for line in statement.lines())
    uses = Counter(re.findall(r"[a-z]\w*", text))
    made = [v for v in drawing.values if not v.leaf]
    unused = [v for v in made if uses[v.name] < 2][-4:]
    wanted = unused if drawing.draw(st.integers(0, 5)) else unused[-1:]
    main = [v for v in made if v.grad][-1:]
    others = [drawing.pick(drawing.values) for _ in range(drawing.draw(st.integers(0, 1)))]
    return tuple(dict.fromkeys(v.name for v in (*main, *wanted, *others))) or ("a",)


def broadcast(one: Shape, other: Shape) -> Shape | None:
    """Return the shape that two shapes broadcast to, or None if they do not."""
    length = max(len(one), len(other))
    sizes = []
    for a, b in zip(
        (1,) * (length - len(one)) + one, (1,) * (length - len(other)) + other, strict=True
    ):
        if a != b and 1 not in (a, b):
            return None
        sizes.append(max(a, b))
    return tuple(sizes) if math.prod(sizes) <= 200 else None


def _count(statements: Sequence[Statement]) -> int:
    return sum(_count(s.body) if not isinstance(s, Line) else 1 for s in statements)
