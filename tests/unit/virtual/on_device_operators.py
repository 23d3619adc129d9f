"""A sample of torch's operator database; ``python -m tests.virtual_ops`` runs all of it."""

import pytest

from tests.virtual_ops.reasons import reason_of

SHARE = 12
"""Every twelfth operator."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operators_compute_as_on_the_cpu(dtype: str) -> None:
    from tests.virtual_ops import comparison

    results = [comparison.compare(op, dtype) for op in comparison.operators()[::SHARE]]
    wrong = [
        f"{r.op}: {r.reason}"
        for r in results
        if r.outcome == "failed" and reason_of(r.op, r.reason) is None
    ]
    assert wrong == []
    assert sum(r.outcome == "passed" for r in results) > 40
