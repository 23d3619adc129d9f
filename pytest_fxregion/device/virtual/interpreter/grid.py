"""Running a kernel's grid: batches of programs, split where programs branch differently.

Comes in: a kernel as Triton's interpreter has rewritten it, its arguments, its grid.  Goes out:
what the kernel does to memory.  The virtual device's tensors are used where they lie; Triton's own
executor would copy each storage to the CPU and back.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import triton
import triton.language as tl
from triton import knobs
from triton.language.extra import libdevice as declared_libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import _normalize_ty

from pytest_fxregion.device.virtual import _replaced, launches
from pytest_fxregion.device.virtual.interpreter import reduction
from pytest_fxregion.device.virtual.interpreter.builder import (
    Diverged,
    GridBuilder,
    Handle,
    TooLarge,
    agreed,
)
from pytest_fxregion.device.virtual.interpreter.kernel_source import python_function
from pytest_fxregion.device.virtual.interpreter.memory import Memory
from pytest_fxregion.errors import DeviceError

Array = npt.NDArray[Any]

_BRANCHES_OF_A_LOOP_WITHOUT_END = 5_000_000
_one_at_a_time = threading.RLock()  # the language's functions are replaced process-wide


class GridExecutor:
    """A kernel and its grid, run over batches of programs.

    Has the shape of Triton's own executor, whose place it takes for kernels that were decorated
    under ``TRITON_INTERPRET=1``.
    """

    def __init__(
        self, fn: Callable[..., Any], arg_names: list[str], grid: Any, pre_run_hooks: Any = ()
    ) -> None:
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
            bound = inspect.getcallargs(self.fn, *args, **kwargs)
            arguments = {
                name: value if name in self.constexprs else _argument(value)
                for name, value in bound.items()
            }
            grid = self.grid(bound) if callable(self.grid) else self.grid
            grid = grid if isinstance(grid, tuple | list) else (grid,)
            x, y, z = (*(int(n) for n in grid), 1, 1)[:3]
            size = (x, y, z)
            constants = {name: bound[name] for name in self.constexprs if name in bound}
            self._run(arguments, size)
            supplied = interpreter.interpreter_builder.supplied
            launches.note(self.fn.__name__, constants, size, supplied)

    def _run(self, arguments: dict[str, Any], grid: tuple[int, ...]) -> None:
        builder: GridBuilder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        builder.supplied = set()
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
            except DeviceError:
                raise
            except Exception as error:
                raise InterpreterError(repr(error)) from error


def _by_value(programs: Array, values: Array) -> list[Array]:
    if len(values) != len(programs):
        raise InterpreterError("a combine function branches on its arguments")
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [programs[group == value] for value in order]


def _argument(value: Any) -> Any:
    if isinstance(value, bool):
        return tl.tensor(Handle(np.array([value]), tl.int1), tl.int1)
    return interpreter._implicit_cvt(value)


def run_kernel(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """Interpret a launch (``JITFunction.run``); a warm-up would only compile."""
    if not warmup:
        function = python_function(self.fn)
        GridExecutor(function, self.arg_names, grid, self.pre_run_hooks)(*args, **kwargs)


def call_jit_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a ``@triton.jit`` function from a running kernel (``JITFunction.__call__``)."""
    return python_function(self.fn)(*args, **kwargs)


def call_interpreted_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that was decorated under ``TRITON_INTERPRET=1`` from a running kernel."""
    return self.rewrite()(*args, **kwargs)


class _Language:
    """``triton.language`` as a running kernel sees it; put back afterwards."""

    _changes: list[tuple[Any, str, Any]] | None = None
    _depth = 0

    def __enter__(self) -> None:
        _Language._depth += 1
        if _Language._depth > 1:
            return  # a kernel that a hook of another one launches
        if _Language._changes is None:
            _Language._changes = _language_of_a_kernel()
        self._before = [
            (owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in _Language._changes
        ]
        for owner, name, value in _Language._changes:
            setattr(owner, name, value)
        self._knobs = knobs.runtime.scope()
        self._knobs.__enter__()
        # Functions of constants give plain values, not constexpr.
        knobs.runtime.interpret = True

    def __exit__(self, *_: object) -> None:
        _Language._depth -= 1
        if _Language._depth:
            return
        self._knobs.__exit__(None, None, None)
        for owner, name, value in reversed(self._before):
            if value is _MISSING:
                if name in vars(owner):  # set twice, and gone already
                    delattr(owner, name)
            else:
                setattr(owner, name, value)


_MISSING: Any = object()


def _language_of_a_kernel() -> list[tuple[Any, str, Any]]:
    """Every attribute of ``triton.language`` to set, found once through Triton's own patching."""
    scope = _Recorder()
    for module in (tl, tl.core):
        interpreter._patch_builtin(module, interpreter.interpreter_builder, scope)
    # The generic libdevice only declares; on CUDA the compiler puts these functions in its place.
    interpreter._patch_builtin(cuda_libdevice, interpreter.interpreter_builder, scope)
    scope.changes += [
        (declared_libdevice, name, function)
        for owner, name, function in scope.changes
        if owner is cuda_libdevice
    ]
    scope.changes += [
        (_replaced.triton_helpers, "constexpr_next_power_of_2", triton.next_power_of_2),
        (_replaced.triton_helpers, "if_mask", lambda mask, value: None if mask is None else value),
        (_replaced.triton_helpers, "x_grid_barrier", _grid_barrier),
    ]
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


def _grid_barrier(semaphore: Any) -> None:
    """Wait for the other programs: they are all here, or they never will be."""
    builder: GridBuilder = interpreter.interpreter_builder
    if len(builder.programs) != math.prod(builder.grid_dim):
        raise DeviceError(
            "the virtual CUDA device cannot run this cooperative reduction: its programs branch "
            "differently before they wait for each other; use a GPU (--fxregion-device=cuda)"
        )


def _truth(self: Any) -> bool:
    # A block is true, as in Triton's interpreter: `a and b` of blocks asks for this.
    if self.type.is_block():
        return True
    builder: GridBuilder = interpreter.interpreter_builder
    builder.branches += 1
    if builder.branches > _BRANCHES_OF_A_LOOP_WITHOUT_END:
        raise DeviceError(
            "a kernel loops without end on the virtual CUDA device; a program that waits for "
            "another one (a lock, a semaphore) cannot be interpreted"
        )
    return bool(agreed(self.handle.data))


def _transposed(self: Any) -> Any:
    shape = list(self.type.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    data = np.swapaxes(self.handle.data, -1, -2)
    return tl.tensor(Handle(data, self.handle.dtype), tl.block_type(self.dtype, shape))
