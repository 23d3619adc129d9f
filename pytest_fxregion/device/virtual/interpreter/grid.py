"""Running a kernel's grid: batches of programs, split where programs branch differently.

Comes in: a kernel as Triton's interpreter has rewritten it, its arguments, its grid.  Goes out:
what the kernel does to memory.  The virtual device's tensors are used where they lie; Triton's own
executor would copy each storage to the CPU and back.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from pytest_fxregion.device.virtual.interpreter import reduction
from pytest_fxregion.device.virtual.interpreter.builder import (
    Diverged,
    GridBuilder,
    Handle,
    TooLarge,
    agreed,
)
from pytest_fxregion.device.virtual.interpreter.memory import Memory

Array = npt.NDArray[Any]

_one_at_a_time = threading.RLock()  # the language's functions are replaced process-wide
_state = SimpleNamespace(depth=0)


class GridExecutor:
    """What ``kernel[grid](...)`` calls in Triton's interpreter, over batches of programs."""

    def __init__(
        self, fn: Callable[..., Any], arg_names: list[str], grid: Any, pre_run_hooks: Any = ()
    ) -> None:
        from triton.runtime.jit import _normalize_ty

        self.fn = fn
        self.grid = grid
        self.pre_run_hooks = pre_run_hooks
        kinds = {name: _normalize_ty(kind) for name, kind in fn.__annotations__.items()}
        self.constexprs = {name for name in arg_names if kinds.get(name) == "constexpr"}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run every program of the grid; returns when all are done."""
        known = inspect.getfullargspec(self.fn).args
        kwargs = {name: value for name, value in kwargs.items() if name in known}
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        with _one_at_a_time, _Language(), np.errstate(all="ignore"):
            arguments = {
                name: value if name in self.constexprs else interpreter._implicit_cvt(value)
                for name, value in inspect.getcallargs(self.fn, *args, **kwargs).items()
            }
            grid = self.grid(arguments) if callable(self.grid) else self.grid
            self._run(arguments, (*(int(n) for n in grid), 1, 1)[:3])

    def _run(self, arguments: dict[str, Any], grid: tuple[int, ...]) -> None:
        builder: GridBuilder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        # In the order in which Triton's interpreter runs them: the last axis fastest.
        programs = np.indices(grid, dtype=np.int32).reshape(3, -1).T
        waiting = [programs] if len(programs) else []
        while waiting:
            batch = waiting.pop()
            memory = Memory()
            builder.start(batch, memory)
            try:
                self.fn(**arguments)
            except Diverged as branch:
                memory.take_back()
                waiting += reversed(_by_value(batch, branch.values))
            except TooLarge:
                memory.take_back()
                waiting += reversed(np.array_split(batch, 4 if len(batch) >= 4 else 2))
            except Exception as error:
                raise InterpreterError(repr(error)) from error


def _by_value(programs: Array, values: Array) -> list[Array]:
    if len(values) != len(programs):
        raise InterpreterError("a combine function branches on its arguments")
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [programs[group == value] for value in order]


def call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a ``@triton.jit`` function from a running kernel (``InterpretedFunction.__call__``)."""
    return self.rewrite()(*args, **kwargs)


class _Language:
    """``triton.language`` as seen by a running kernel; put back afterwards."""

    _changes: list[tuple[Any, str, Any]] | None = None

    def __enter__(self) -> None:
        _state.depth += 1
        if _state.depth > 1:
            return
        if _Language._changes is None:
            _Language._changes = _language_of_a_kernel()
        self._before = [
            (owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in _Language._changes
        ]
        for owner, name, value in _Language._changes:
            setattr(owner, name, value)

    def __exit__(self, *_: object) -> None:
        _state.depth -= 1
        if _state.depth:
            return
        for owner, name, value in reversed(self._before):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


_MISSING: Any = object()


def _language_of_a_kernel() -> list[tuple[Any, str, Any]]:
    """Every attribute of ``triton.language`` to set, found once through Triton's own patching."""
    scope = _Recorder()
    for module in (tl, tl.core):
        interpreter._patch_builtin(module, interpreter.interpreter_builder, scope)
    for owner in (tl.tensor, tl.math, tl.core.tensor_descriptor_base):
        interpreter._patch_builtin(owner, interpreter.interpreter_builder, scope)
    interpreter._patch_lang_core(tl, scope)
    interpreter._patch_lang_core(tl.core, scope)
    changes = scope.changes
    for module in (tl, tl.core):
        changes.append((module, "reduce", reduction.reduce))
        changes.append((module, "associative_scan", reduction.associative_scan))
    tensor = tl.tensor
    changes.append((tensor, "__index__", lambda self: int(agreed(self.handle.data))))
    changes.append((tensor, "__bool__", _truth))
    changes.append((tensor, "__repr__", lambda self: repr(self.handle.data)))
    changes.append((tensor, "__str__", lambda self: str(self.handle.data)))
    changes.append((tensor, "T", property(_transposed)))
    return changes


class _Recorder:
    """Takes the place of Triton's scope of patches: notes them and sets nothing."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, str, Any]] = []

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        self.changes.append((owner, name, value))


def _truth(self: Any) -> bool:
    # A block is true, as in Triton's interpreter: `a and b` of blocks asks for this.
    return True if self.type.is_block() else bool(agreed(self.handle.data))


def _transposed(self: Any) -> Any:
    shape = list(self.type.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    data = np.swapaxes(self.handle.data, -1, -2)
    return tl.tensor(Handle(data, self.handle.dtype), tl.block_type(self.dtype, shape))
