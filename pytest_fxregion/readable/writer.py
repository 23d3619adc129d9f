"""A graph module in, its text out: valid Python, complete, and the same in every process.

The code is the one that torch's ``GraphModule.print_readable`` shows with strides and devices.  The
comments are this package's own: source lines without line numbers, and every tag of every node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen

from pytest_fxregion._torch.graphs import codegen_of
from pytest_fxregion.color import colored_text
from pytest_fxregion.readable.constants import tensor_constant_text
from pytest_fxregion.readable.counters import Counters
from pytest_fxregion.readable.declared_types import declared_type_text
from pytest_fxregion.readable.expressions import Expressions
from pytest_fxregion.readable.names import Names, attribute_path, identifier, is_name
from pytest_fxregion.readable.source import SourceLines
from pytest_fxregion.readable.symbols import stable_symbols
from pytest_fxregion.readable.tags import Tags
from pytest_fxregion.readable.types import annotation_text, layout_note
from pytest_fxregion.readable.values import stable_text

# The symbol of a nested tensor's ragged size.  torch counts them over the process, from 1.
_RAGGED_SIZE = re.compile(r"\bj\d+\b")

_INDENT = "    "


def render(
    gm: fx.GraphModule,
    *,
    name: str = "GraphModule",
    root: Path | None = None,
    colored: bool = False,
    counters: Counters | None = None,
    additional_meta: Sequence[str] = (),
) -> str:
    """Return the text of ``gm``, and of every graph module inside it.

    ``name`` is the class's name in the text.  ``root`` is the folder that source paths are made
    relative to (pytest's rootdir); a file outside of it is shown by its path inside
    ``site-packages``, else by its bare name.  ``colored`` adds terminal colours, with which the
    text is no Python any more.  ``counters`` are those of an earlier text whose numbers this one
    goes on with, as a backward's checkpointed calls are the joint graph's; without them it counts
    from 0.  ``additional_meta`` are further keys of ``node.meta`` to show.
    """
    if counters is None:
        counters = Counters()
    text = "\n".join(_module_lines(gm, name, _Text(root, counters, additional_meta))) + "\n"
    text = stable_symbols(gm, counters)(text)
    return colored_text(text) if colored else text


def print_readable(
    gm: fx.GraphModule,
    print_output: bool = True,
    *,
    root: Path | None = None,
    colored: bool = False,
    additional_meta: Sequence[str] = (),
) -> str:
    """Return the text of ``gm`` as :func:`render` makes it, and print it unless told not to.

    Takes the place of ``gm.print_readable``: its text is valid Python whatever the metadata holds,
    shows every tag, and does not change from run to run.
    """
    text = render(
        gm, name=type(gm).__name__, root=root, colored=colored, additional_meta=additional_meta
    )
    if print_output:
        print(text)
    return text


class _Text:
    """What all graph modules of one text share."""

    def __init__(
        self, root: Path | None, counters: Counters, additional_meta: Sequence[str]
    ) -> None:
        self.sources = SourceLines(root)
        self.counters = counters
        self.tags = Tags(self.counters, self.sources, additional_meta)


def _module_lines(gm: fx.GraphModule, name: str, text: _Text) -> list[str]:
    """Return the lines of ``gm``'s class, and of the classes of the graph modules inside it."""
    children = dict(_graph_modules_in(gm))
    class_names = {id(child): identifier(path) for path, child in children.items()}
    function = _Function(gm, class_names, text)
    lines = [f"class {identifier(name)}(torch.nn.Module):"]
    lines += _indented(function.lines())
    for path, child in children.items():
        lines.append("")
        lines += _indented(_module_lines(child, path, text))
    return lines


def _graph_modules_in(module: torch.nn.Module) -> Iterator[tuple[str, fx.GraphModule]]:
    """Yield the nearest graph modules below ``module``, each once, with their paths."""
    for name, child in module.named_children():
        if isinstance(child, fx.GraphModule):
            yield name, child
        else:
            for path, inner in _graph_modules_in(child):
                yield f"{name}.{path}", inner


class _Function:
    """The ``forward`` of one graph module, written node by node."""

    def __init__(self, gm: fx.GraphModule, class_names: dict[int, str], text: _Text) -> None:
        self._gm = gm
        self._codegen = _shown_codegen(gm.graph)
        self._class_names = class_names
        self._sources = text.sources
        self._tags = text.tags
        self._counters = text.counters
        self._names = Names()
        self._expressions = Expressions(self._names, text.counters)
        self._wrapped: dict[str, None] = {}
        self._parameters: list[str] = []
        self._types: dict[str, str] = {}
        self._body: list[str] = []
        self._return_type = ""
        self._source: str | None = None

    def lines(self) -> list[str]:
        """Return the lines of the function, without the indent of the class around it."""
        graph = self._gm.graph
        freed = _freed_after(graph)
        for node in graph.nodes:
            name = self._names.add_node(node)
            if node.op == "placeholder":
                self._write_placeholder(node, name)
            elif node.op == "output":
                self._write_output(node)
            else:
                self._write_node(node, name, freed.get(node, []))
        head = self._signature()
        body = [*self._types_not_in(head), *self._body]
        if all(line.startswith("#") for line in body):
            body.append("pass")
        return [*self._wrapped_functions(), *head, *_indented(body)]

    def _wrapped_functions(self) -> list[str]:
        """Return the statements that keep `torch.fx.wrap`ped functions whole when retraced."""
        if not self._wrapped:
            return []
        wrap = self._expressions.target(fx.wrap)
        return [*[f'{wrap}("{name}")' for name in self._wrapped], ""]

    def _signature(self) -> list[str]:
        codegen = self._codegen
        parameters = self._parameters
        if type(codegen) is not CodeGen:
            # A graph may bring its own calling convention (make_fx and export: nested inputs).
            text: str = codegen.gen_fn_def(list(parameters), self._return_type)
            return text.split("\n")
        if parameters[:1] != ["self"]:
            parameters = ["self", *parameters]
        return [f"def forward({', '.join(parameters)}){self._return_type}:"]

    def _types_not_in(self, head: list[str]) -> list[str]:
        """Return comments with the types of placeholders that the graph's own signature drops."""
        if type(self._codegen) is CodeGen:
            return []
        shown = "\n".join(head)
        return [
            f"# {name}: value: {annotation[3:-1]}"
            for name, annotation in self._types.items()
            if annotation.startswith(': "') and annotation not in shown
        ]

    def _write_placeholder(self, node: fx.Node, name: str) -> None:
        target = str(node.target)
        given = target.lstrip("*")
        if not is_name(given):
            given = identifier(given)
            target = target[: len(target) - len(target.lstrip("*"))] + given
        for tag in self._notes(node):
            self._body.append(f"# {name}: {tag}")
        annotation = self._annotation(node)
        self._types[name] = annotation
        default = f" = {self._expressions.text(node.args[0])}" if node.args else ""
        self._parameters.append(f"{target}{annotation}{default}")
        if given != name:
            self._body.append(f"{name} = {given}")

    def _write_output(self, node: fx.Node) -> None:
        self._body += [f"# {tag}" for tag in self._notes(node)]
        if node.type is not None:
            self._return_type = f" -> {declared_type_text(node.type, self._names)}"
        codegen = self._codegen
        if type(codegen) is CodeGen:
            self._body.append(f"return {self._expressions.text(node.args[0])}")
        else:
            self._body += codegen.generate_output(self._spelled(node.args[0])).split("\n")

    def _spelled(self, value: Any) -> Any:
        """Return ``value`` with its parts replaced by objects whose ``repr`` is their text."""
        if type(value) in (list, tuple) or isinstance(value, list):
            kind = tuple if isinstance(value, tuple) else list
            return kind(self._spelled(item) for item in value)
        return _Spelled(self._expressions.text(value))

    def _write_node(self, node: fx.Node, name: str, freed: list[fx.Node]) -> None:
        body = self._body
        source = self._sources.line(node.stack_trace)
        if source != self._source:
            self._source = source
            if body:
                body.append("")
            body.append(f"# file: {source or 'none'}")
        statement = self._statement(node, name)
        body += [f"# {tag}" for tag in self._notes(node)]
        dead = [self._names.of_node[value] for value in freed]
        if not node.users:
            dead.append(name)
        body.append(f"{statement};  {' = '.join(dead)} = None" if dead else statement)

    def _statement(self, node: fx.Node, name: str) -> str:
        expressions = self._expressions
        assigned = f"{name}{self._annotation(node)} ="
        args, kwargs = node.args, node.kwargs
        target = node.target
        if node.op == "call_function":
            in_place = expressions.in_place_statement(target, args)
            if in_place is not None:
                return f"{in_place};  {assigned} {expressions.text(args[0])}"
            if node.meta.get("is_wrapped"):
                self._wrapped[expressions.target(target)] = None
            return f"{assigned} {expressions.function_call(target, args, kwargs)}"
        path = str(target)
        if node.op == "call_method":
            method = attribute_path(expressions.text(args[0]), path)
            return f"{assigned} {method}({expressions.call(args[1:], kwargs)})"
        attribute = attribute_path("self", path)
        if node.op == "get_attr":
            return f"{assigned} {attribute}"
        return f"{assigned} {attribute}({expressions.call(args, kwargs)})"

    def _annotation(self, node: fx.Node) -> str:
        """Return the node's type with its colon; of the value that was traced, else as declared."""
        found = annotation_text(node.meta)
        if found is not None:
            if "j" in found:
                found = _RAGGED_SIZE.sub(self._ragged_size, found)
            if '"' in found or "\\" in found or not found.isprintable():
                return f": {found!r}"
            return f': "{found}"'
        return "" if node.type is None else f" : {declared_type_text(node.type, self._names)}"

    def _ragged_size(self, found: re.Match[str]) -> str:
        return f"j{self._counters.number('ragged size', found[0]) + 1}"

    def _notes(self, node: fx.Node) -> list[str]:
        """Return the comment lines of ``node``: its tags, and what no expression can say."""
        notes = self._tags.lines(node)
        layout = layout_note(node.meta)
        if layout is not None:
            notes.append(f"value: {layout}")
        if node.op == "get_attr":
            notes += self._attribute_notes(str(node.target))
        return notes + self._expressions.take_notes()

    def _attribute_notes(self, path: str) -> list[str]:
        value: Any = self._gm
        for part in path.split("."):
            value = getattr(value, part, None)
        if isinstance(value, torch.Tensor):
            # A parameter's numbers are the training's, not the graph's.
            if isinstance(value, torch.nn.Parameter):
                return []
            return [f"value: {tensor_constant_text(value)}"]
        shown_as = self._class_names.get(id(value))
        if shown_as is not None:
            # One body under several names is written once.
            return [] if shown_as == identifier(path) else [f"value: {shown_as}"]
        if value is None or isinstance(value, torch.nn.Module):
            return []
        return [f"value: {stable_text(value)}"]


def _shown_codegen(graph: fx.Graph) -> CodeGen:
    """Return the calling convention to show: not that of a list which serves the caller only."""
    codegen = codegen_of(graph)
    shown: CodeGen = getattr(codegen, "shown_as", codegen)
    return shown


def _indented(lines: list[str]) -> list[str]:
    return [_INDENT + line if line else line for line in lines]


class _Spelled:
    """Stands for an argument whose text is known, before code that asks for its ``repr``."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _freed_after(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """Return, for each node, the values that no later node uses, in the order of its inputs."""
    freed: dict[fx.Node, list[fx.Node]] = {}
    used_later: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        for value in node.all_input_nodes:
            if value not in used_later:
                used_later.add(value)
                freed.setdefault(node, []).append(value)
    return freed
