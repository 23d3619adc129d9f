"""How a spliced graph is called, and how it calls its regions.  In: a graph; out: a graph module.

AOTAutograd passes one list, which it expects to be emptied so that inputs are freed at their last
use; ``make_fx`` and ``torch.export`` graphs are called with their inputs.  The placeholder of a
flat graph is never a list, so one generated function can serve both.  Regions are handed lists in
the same way, so that an operand is freed at its last use inside the region.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from torch.fx import Graph

from pytest_fxregion._torch.graphs import (
    CodeGen,
    LazyGraphModule,
    PyTreeCodeGen,
    codegen_of,
    tree_flatten_spec,
)


def codegen_for(graph: Graph) -> CodeGen:
    """Make a code generator for the spliced form of ``graph``, whose own one is left as it is."""
    original = codegen_of(graph)
    placeholders = graph.find_nodes(op="placeholder")
    if type(original) is CodeGen:
        plain = all(not str(p.target).startswith("*") and not p.args for p in placeholders)
        return ListOrPositional() if plain else copy(original)
    if type(original) is PyTreeCodeGen and _has_arguments_and_keywords(original.pytree_info):
        return ListOrStructured(original.pytree_info, len(placeholders))
    return copy(original)


class RegionalModule(LazyGraphModule):
    """A spliced graph.  Its call goes straight to the generated function if it has no hooks."""

    # AOTAutograd asks for this name to know that it may pass one list.
    _boxed_call = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        if self._forward_hooks or self._forward_pre_hooks:
            self.real_recompile()  # the lazy function would call this one, and the hooks, again
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _real_recompile(self) -> Any:
        code = super()._real_recompile()
        type(self).__call__ = RegionalModule.__call__  # type: ignore[method-assign]
        return code


_REGION_CALL = re.compile(
    r"^(?P<indent> *)(?P<result>\w+) = (?P<call>\w*inductor_region_\d+)"
    r"\((?P<operands>[\w, ]*)\)(?P<freed>;  [\w =]+ = None)?$",
    re.MULTILINE,
)


def hand_over_operands(graph: Graph) -> None:
    """Have the graph's generated code give each region a list that is the only one to hold it."""
    graph.on_generate_code(lambda _: _with_boxed_calls)


def _with_boxed_calls(body: list[str]) -> list[str]:
    return [_REGION_CALL.sub(_boxed_call, "".join(body))]


def _boxed_call(match: re.Match[str]) -> str:
    indent, result, call, operands, freed = match.group(
        "indent", "result", "call", "operands", "freed"
    )
    if not freed:
        return f"{indent}{result} = {call}.boxed([{operands}])"
    boxed = f"{result}_operands"
    return f"{indent}{boxed} = [{operands}]{freed};  {result} = {call}.boxed({boxed})"


class ListOrPositional(CodeGen):
    """A flat graph's function: takes its inputs, or one list of them, which it empties."""

    @property
    def shown_as(self) -> CodeGen:
        """The calling convention that the graph's text shows: the one for a caller by hand."""
        return CodeGen()

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        """Write the head of the function."""
        names = ", ".join(_bare(name) for name in free_vars if name != "self")
        taken = f"{names}, = args" if names else "pass"
        return f"""def {self._func_name}(self, *args){maybe_return_annotation}:
    if len(args) == 1 and type(args[0]) is list:
        args = args[0]
        {taken}
        args.clear()
    else:
        {taken}
    args = None"""


class ListOrStructured(PyTreeCodeGen):
    """The same for a graph whose inputs and outputs are nested containers."""

    def __init__(self, pytree_info: Any, count: int) -> None:
        super().__init__(pytree_info)
        self._count = count

    @property
    def shown_as(self) -> CodeGen:
        """The calling convention that the graph's text shows: the original's."""
        return PyTreeCodeGen(self.pytree_info)

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the generated function uses."""
        return [*super().additional_globals(), ("_flatten_inputs", self.flatten_inputs)]

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        """Write the head of the function."""
        head = f"def {self._func_name}(self, *args, **kwargs){maybe_return_annotation}:"
        names = [_bare(name) for name in free_vars if name != "self"]
        if not names:
            return head
        return f"{head}\n    {', '.join(names)}, = _flatten_inputs(args, kwargs)"

    def flatten_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the flat inputs of a call, given as the original was, or as one list of them.

        Raises :class:`TypeError` if an argument is missing.
        """
        positional, keywords = self.pytree_info.in_spec.children()
        if not kwargs and len(args) == 1 and type(args[0]) is list:
            takes_list = positional.num_children == 1 and positional.child(0).type is list
            as_original = takes_list and not keywords.num_children
            if not as_original and len(args[0]) == self._count:
                flat = list(args[0])
                args[0].clear()
                return flat
        names = self.pytree_info.orig_args[: positional.num_children]
        missing = [name for name in names[len(args) :] if name not in kwargs]
        missing += [name for name in keywords.context if name not in kwargs]
        if missing:
            raise TypeError(f"missing arguments: {', '.join(map(str, missing))}")
        bound = [*args, *(kwargs[name] for name in names[len(args) :])]
        named = {name: kwargs[name] for name in keywords.context}
        return tree_flatten_spec((bound, named), self.pytree_info.in_spec)


def _has_arguments_and_keywords(info: Any) -> bool:
    spec = info.in_spec
    return bool(
        spec.type is tuple
        and spec.num_children == 2
        and spec.child(0).type is tuple
        and spec.child(1).type is dict
        and "self" not in info.orig_args[:1]
    )


def _bare(name: str) -> str:
    """Return a parameter's name without annotation, default or comment."""
    return name.split(":")[0].split("=")[0].split("#")[0].strip()
