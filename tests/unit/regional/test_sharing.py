"""Results that Inductor would give the memory of an operand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx.traceback import annotate

from pytest_fxregion.regional.layout import results_of
from pytest_fxregion.regional.sharing import shared_results
from tests.unit.checks.test_accumulation_oracle import run_of


def test_a_sum_with_zeros_is_a_new_tensor_although_inductor_adds_nothing() -> None:
    def function(x: Tensor) -> Any:
        with annotate({"compile_with_inductor": 0}):
            same = torch.zeros_like(x) + x
            other = x.sin()
        x.mul_(2)
        return same, other

    run = run_of(function, torch.ones(4, 6))
    run.check_numerics()
    assert run.outputs[0].tolist() == torch.ones(4, 6).tolist()


def test_what_is_returned_is_read_from_generated_code() -> None:
    def body(*names: str) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        x.meta["val"] = torch.ones(2)
        results = []
        for name in names:
            node = graph.call_function(torch.ops.aten.sin.default, (x,), name=name)
            node.meta["val"] = torch.ones(2)
            results.append(node)
        view = graph.call_function(torch.ops.aten.t.default, (x,))
        view.meta["val"] = x.meta["val"].t()
        graph.output((*results, view))
        return torch.fx.GraphModule({}, graph)

    gm = body("a", "b", "c")
    source = """
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        return (arg1_1, buf0, reinterpret_tensor(arg0_1, (2, 1), (1, 1), 0), arg0_1, )
"""
    a, _, c, _ = results_of(gm)
    assert shared_results(gm, source) == [a, c]
    assert shared_results(gm, source.replace("buf0, ", "")) == []
    assert shared_results(gm, "") == []

    twice = source.replace("(arg1_1, buf0", "(buf0, buf0")
    assert shared_results(gm, twice) == [results_of(gm)[1], c]
    parts = "(reinterpret_tensor(buf0, (2, ), (1, ), 0), reinterpret_tensor(buf0, (2, ), (1, ), 2)"
    assert shared_results(gm, source.replace("(arg1_1, buf0", parts)) == [c]


def test_two_results_of_one_value_are_two_tensors() -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        with annotate({"compile_with_inductor": 0}):
            product = x @ w
            with torch.no_grad():
                copied = torch.zeros_like(product) + product
        return product, copied

    run = run_of(function, torch.ones(4, 4), torch.ones(4, 4).requires_grad_())
    run.check()
    assert "w" in run.gradients
