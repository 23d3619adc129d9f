"""How far rounding alone moves eager's results.  In: a call; out: runs of it, rounded otherwise.

The error that rounding leaves differs from element to element of one result by orders of
magnitude: where large terms cancel it is that of the terms, elsewhere that of the element. It is
estimated as in stochastic arithmetic (Vignes, "A stochastic arithmetic for reliable scientific
computation", 1993; Parker, "Monte Carlo arithmetic", 1997): the call is run in its own precision
several times, and each time every operation's result is moved at random by one machine epsilon up
or down. What an operation reduces over (a matrix product, a sum, a normalisation) rounds inside
it, so that its operands are moved as well; of an operator that runs a subgraph, too. An activation
that is a formula is run as that formula. How far such
runs lie from the true result is, element by element, the error that this function makes of
rounding, whatever operations it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pytest_fxregion._torch.containers import tree_map
from pytest_fxregion._torch.modes import DispatchMode
from pytest_fxregion._torch.operators import OpOverload, decomposition_of, schema_of
from pytest_fxregion._torch.tensors import is_wrapper_subclass

# What gives elements of its operands, or of nothing but sizes and constants: nothing is rounded.
_EXACT_NAMES = """
_assert_async _local_scalar_dense _reshape_alias _unsafe_index _unsafe_view abs alias amax amin
arange argmax argmin argsort as_strided bernoulli bernoulli_ bitwise_and broadcast_tensors
bucketize cat ceil channel_shuffle clamp clamp_ clamp_max clamp_min clone constant_pad_nd copy
copy_ cummax cummin detach diag diag_embed diagonal diagonal_copy embedding empty empty_like
empty_permuted empty_strided equal eye fill fill_ flip floor fmax fmin full full_like gather
im2col index index_copy index_fill index_select isfinite isnan lift lift_fresh lift_fresh_copy
masked_fill masked_fill_ masked_scatter masked_select max max_pool2d_with_indices maximum median
min minimum mode nan_to_num narrow_copy native_channel_shuffle neg neg_ new_empty
new_empty_strided new_full new_ones new_zeros nonzero normal_ ones ones_like permute_copy
pixel_shuffle rand rand_like randint randn randn_like randperm reflection_pad1d reflection_pad2d
relu relu_ repeat repeat_interleave replication_pad1d replication_pad2d resize_ roll rot90 round
scalar_tensor scatter select_backward select_scatter set_ sgn sign slice_backward slice_scatter
sort split_with_sizes_copy squeeze_copy stack t_copy take threshold threshold_backward topk
transpose_copy tril triu trunc unbind_copy unfold_copy uniform_ unsqueeze_copy view_copy where
zero_ zeros zeros_like
"""
_EXACT = frozenset(_EXACT_NAMES.split())
# Of several operations, whose terms cancel: 1 + erf(x) in the tail of a GELU.
_COMPOSED_NAMES = """
celu elu elu_backward gelu gelu_backward hardswish hardswish_backward log_sigmoid_backward
log_sigmoid_forward logaddexp logaddexp2 logit logit_backward mish mish_backward selu
sigmoid_backward silu silu_backward softplus softplus_backward tanh_backward
"""
_COMPOSED = frozenset(_COMPOSED_NAMES.split())
_CASTS = frozenset(("_to_copy", "to", "convert_element_type"))
# They write to their running statistics, the operands after input, weight and bias; their schema
# does not say so.
_BATCH_NORMS = frozenset(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"))


class MovedRoundings(DispatchMode):
    """While active, results of operations are moved at random by their dtype's machine epsilon."""

    supports_higher_order_operators = True  # cond, scan…: they come by like any other operation

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile work while the mode is active: eager's ``cond`` is built on it."""
        return True

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)
        self._factors: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}
        self._at = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation on moved operands where it reduces, and move what it gives."""
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            if "triton" not in func.name():  # whose operands are written to
                args, kwargs = tree_map(self._moved_copy, (args, kwargs))
            return tree_map(self._move, func(*args, **kwargs))
        name = func.name().partition("::")[2].partition(".")[0]
        schema = schema_of(func)
        gives_views = any(
            r.alias_info is not None and not r.alias_info.is_write for r in schema.returns
        )
        if gives_views or name in _EXACT:
            return func(*args, **kwargs)
        inner = decomposition_of(func) if name in _COMPOSED else None
        if inner is not None:
            with self:
                return inner(*args, **kwargs)
        if name in _CASTS:
            result = func(*args, **kwargs)
            return self._move(result) if _narrows(args[0], result) else result
        elementwise = torch.Tag.pointwise in func.tags
        random = torch.Tag.nondeterministic_seeded in func.tags
        if name in _BATCH_NORMS:
            args = (*tree_map(self._moved_copy, args[:3]), *args[3:])
        elif not (elementwise or random or schema.is_mutable):
            args, kwargs = tree_map(self._moved_copy, (args, kwargs))
        return tree_map(self._move, func(*args, **kwargs))

    def _moved_copy(self, value: Any) -> Any:
        return value * self._factor(value) if _can_be_moved(value) else value

    def _move(self, value: Any) -> Any:
        if is_wrapper_subclass(value):
            for name in value.__tensor_flatten__()[0]:
                self._move(getattr(value, name))
        return value.mul_(self._factor(value)) if _can_be_moved(value) else value

    def _factor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return numbers beside one, another stretch of one long random row each time."""
        dtype = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
        count, key = tensor.numel(), (dtype, tensor.device)
        row = self._factors.get(key)
        if row is None or len(row) < 2 * count:
            signs = torch.randint(0, 2, (2 * count + 4096,), generator=self._generator) * 2 - 1
            row = (1 + signs.double() * torch.finfo(dtype).eps).to(dtype).to(tensor.device)
            self._factors[key] = row
        self._at = (self._at * 31 + 17) % (len(row) - count)
        return row[self._at : self._at + count].view(tensor.shape)


def _can_be_moved(value: Any) -> bool:
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout is torch.strided
        and (value.is_floating_point() or value.is_complex())
        and value.element_size() > 1  # float8 has no arithmetic
        and value.numel() > 0
        and not any(
            n > 1 and step == 0 for n, step in zip(value.shape, value.stride(), strict=True)
        )
    )


def _narrows(source: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether a cast rounds."""
    if not (source.is_floating_point() and result.is_floating_point()):
        return False
    return torch.finfo(source.dtype).eps < torch.finfo(result.dtype).eps


class Samples:
    """Runs of the call with other roundings, made when they are asked for.

    ``run`` runs the call once and returns its named values.
    """

    def __init__(self, run: Callable[[], Mapping[str, Any]], seed: int) -> None:
        self._run = run
        self._seed = seed
        self._made: list[Mapping[str, Any]] = []
        self._failed = False

    def __call__(self, count: int) -> Sequence[Mapping[str, Any]]:
        """Return ``count`` runs; fewer if the call does not stand being moved."""
        while len(self._made) < count and not self._failed:
            mode = MovedRoundings(self._seed + len(self._made))
            try:
                with mode:
                    self._made.append(self._run())
            except Exception:  # a value that has to be exact: an assertion of the user's, say
                self._failed = True
        return self._made[:count]
