"""Whatever annotations and arguments hold, the text is valid Python of the expected lines."""

from __future__ import annotations

import ast
import functools
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx

from pytest_fxregion._torch.graphs import LazyGraphModule
from pytest_fxregion.readable import render
from pytest_fxregion.readable.values import stable_text


class Spoken:
    """An object whose repr is the given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


texts = st.text(st.characters(exclude_categories=()), max_size=8)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    texts,
    st.binary(max_size=4),
    texts.map(Spoken),
    st.sampled_from([torch.float32, len, Spoken, torch.device("cpu"), object(), torch.ones(2)]),
)
hashable = st.one_of(st.integers(), texts, st.tuples(st.integers(), texts))
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
        st.builds(slice, inner, inner, inner),
        st.builds(functools.partial, st.just(len), inner),
    ),
    max_leaves=6,
)


@given(value=values)
@settings(deadline=None)
def test_a_value_is_one_printable_line(value: object) -> None:
    text = stable_text(value)
    assert text.isprintable()
    assert text.encode().decode() == text
    assert text == stable_text(value)


@given(annotation=st.dictionaries(hashable, values, max_size=3), region=values, argument=values)
@settings(deadline=None)
def test_any_annotation_and_argument_leave_the_text_valid(
    annotation: dict[Any, Any], region: object, argument: Any
) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x, argument), {"k": argument})
    y.meta["custom"] = {**annotation, "compile_with_inductor": {"inductor_region": region}}
    graph.output(y)
    gm = LazyGraphModule({}, fx.Graph())
    gm.graph = graph
    text = render(gm)
    ast.parse(text)
    tags = [line for line in text.splitlines() if "#" in line[:10] and "value: " not in line]
    assert len(tags) == 1 + len(annotation)
    assert " at 0x" not in text
