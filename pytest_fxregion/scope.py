"""``region(...)``: the scope whose operations Inductor is to compile, as the user writes it.

Comes in: an id, Inductor options and keys of the user's own.  Goes out: the same annotation that
``torch.fx.traceback.annotate`` would leave on the nodes traced inside, in ``node.meta["custom"]``.

``annotate`` keeps what is in force in one dictionary of the process, so that whatever another
thread traces meanwhile is annotated too (pytorch#184917).  Here nothing global is written.  What
is in force belongs to the thread, and a tracer's nodes are annotated when the scope is left: those
that this thread's tracer appended since it was entered.  Only dynamo, which knows no scope but
``annotate``, is given that; it traces under a lock of the whole process.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
from torch.fx.traceback import annotate, get_current_meta

from pytest_fxregion._torch.frames import (
    dynamos_hook,
    never_compiled_alone,
    never_compiled_itself,
)
from pytest_fxregion.errors import AnnotationError

if TYPE_CHECKING:
    from torch import fx

ANNOTATION_KEY = "compile_with_inductor"
# What the backend is to say of a region whose arguments cannot be used: dynamo takes an exception
# of the function that it traces for the function's own, and runs that in eager.
REFUSED_KEY = "fxregion_refused"
_TRACERS = "torch.fx.experimental.proxy_tensor"
_OWN = str(Path(__file__).parent)
_MADE_OUTSIDE = (
    "the region was made outside of the compiled function that enters it, where dynamo cannot "
    "follow; write `with region(...):` there"
)

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def region(
    id: object = None, *, configs: Mapping[str, object] | None = None, **custom: object
) -> Scope:
    """Annotate a block, or with ``@region(...)`` a function, as one region for Inductor.

    ``id`` tells regions apart; blocks with the same id and configs may be compiled together.
    ``False`` takes the block out of the region around it.  ``configs`` are names and values of
    ``torch._inductor.config``, patched around the region's compile.  Further keywords are the
    user's own keys of ``node.meta["custom"]``.

    Scopes nest: on the same key the inner one wins, and leaving it brings the outer one back, an
    exception included.  Works under ``torch.compile``, ``make_fx`` and ``torch.export``, and does
    nothing where nothing is traced.  Enter it inside of the function that is traced: around the
    call of ``torch.compile`` or ``make_fx`` it does nothing.  For ``torch.compile`` make it there,
    too: dynamo cannot enter one that it has not seen made.

    Raises :class:`~pytest_fxregion.errors.AnnotationError` for arguments that cannot be used,
    naming the line and the nearest valid key.  Inside of a function that dynamo traces, the same
    error comes from the backend ``fxregion``.
    """
    if torch.compiler.is_dynamo_compiling():
        refused = _refused(id, custom)
        annotation = _annotation(id, configs, custom)
        if refused is not None:
            annotation = {ANNOTATION_KEY: {REFUSED_KEY: refused}}
        return annotate(annotation)  # type: ignore[return-value]
    return _scope(id, configs, custom, is_made_in_call=callable(dynamos_hook()))


# Compiled by itself it would return what dynamo cannot bring back from a graph: an `annotate`.
never_compiled_itself(region)


@never_compiled_alone
def _scope(
    id: object,
    configs: Mapping[str, object] | None,
    custom: dict[str, object],
    *,
    is_made_in_call: bool,
) -> Scope:
    refused = _refused(id, custom)
    if refused is not None:
        raise AnnotationError(f"{_caller()}: {refused}")
    if configs is not None:
        from pytest_fxregion.regional.annotation import checked_configs

        checked_configs(configs, _caller())
    return Scope(_annotation(id, configs, custom), is_made_in_call=is_made_in_call)


def _annotation(
    id: object, configs: Mapping[str, object] | None, custom: dict[str, object]
) -> dict[str, object]:
    if id is False:
        return {ANNOTATION_KEY: False, **custom}
    value: dict[str, object] = {}
    if id is not None:
        value["inductor_region"] = id
    if configs is not None:
        value["inductor_configs"] = configs
    return {ANNOTATION_KEY: value, **custom}


@never_compiled_alone
def _scope_of(annotation: dict[str, object]) -> Scope:
    if torch.compiler.is_dynamo_compiling():
        return annotate(annotation)  # type: ignore[return-value]
    return Scope(annotation, is_made_in_call=True)


@dataclass(slots=True)
class _Entered:
    """One scope in force: what it annotates, and where its thread's tracer stood at its start."""

    annotation: dict[str, object]
    tracer: Any
    last: fx.Node | None
    outer: dict[str, object]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.entered: list[_Entered] = []


_thread = _Thread()


def annotation_in_force() -> dict[str, object]:
    """Return what this thread's scopes and torch's own ``annotate`` ask for at this moment."""
    found = dict(get_current_meta().get("custom") or {})
    for entered in _thread.entered:
        found.update(entered.annotation)
    return found


class Scope:
    """What :func:`region` returns: a context manager, to be entered any number of times."""

    __slots__ = ("_annotation", "_is_made_in_call")

    def __init__(self, annotation: dict[str, object], *, is_made_in_call: bool) -> None:
        self._annotation = annotation
        self._is_made_in_call = is_made_in_call

    @never_compiled_itself
    def __enter__(self) -> None:
        if torch.compiler.is_dynamo_compiling():
            raise AnnotationError(_MADE_OUTSIDE)  # dynamo leaves the function to eager: see below
        # One that was made in the call is of code that dynamo leaves to eager for another reason.
        self._enter(is_lost=callable(dynamos_hook()) and not self._is_made_in_call)

    @never_compiled_alone
    def _enter(self, *, is_lost: bool) -> None:
        if is_lost:
            raise AnnotationError(f"{_caller()}: {_MADE_OUTSIDE}")
        tracer = _current_tracer()
        last = None if tracer is None else next(iter(reversed(tracer.graph.nodes)), None)
        outer = {} if tracer is None else dict(get_current_meta().get("custom") or {})
        _thread.entered.append(_Entered(self._annotation, tracer, last, outer))

    @never_compiled_alone
    def __exit__(self, *error: object) -> None:
        entered = _thread.entered.pop()
        if entered.tracer is not None:
            _annotate(entered)

    def __call__(self, function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        """Return ``function`` with its body in the scope."""
        annotation = self._annotation

        @functools.wraps(function)
        def annotated(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            with _scope_of(annotation):
                return function(*args, **kwargs)

        return annotated


def _current_tracer() -> Any | None:
    """Return the tracer of this thread; None where nothing is traced."""
    module: Any = sys.modules.get(_TRACERS)
    mode = None if module is None else module.get_proxy_mode()
    return None if mode is None else mode.tracer


def _annotate(scope: _Entered) -> None:
    """Annotate what the tracer appended since the scope was entered."""
    graph = scope.tracer.graph
    start = scope.last
    while start is not None and start.prev.next is not start:  # it was erased meanwhile
        start = start.prev
    for node in reversed(graph.nodes):
        if node is start:
            break
        for inner in _with_bodies(node, scope.tracer):
            own = inner.meta.get("custom") or {}
            # What was in force around the scope is the outer one's; what differs, an inner one's.
            inside = {k: v for k, v in own.items() if k not in scope.outer or scope.outer[k] != v}
            inner.meta["custom"] = {**own, **copy.copy(scope.annotation), **inside}


def _with_bodies(node: fx.Node, tracer: Any) -> Iterator[fx.Node]:
    """Yield a node, and those of the body that it stands for: a branch of ``cond``, for one."""
    yield node
    if node.op == "get_attr":
        body = getattr(tracer.root, str(node.target), None)
        if isinstance(body, torch.fx.GraphModule):
            for module in body.modules():
                if isinstance(module, torch.fx.GraphModule):
                    yield from module.graph.nodes


def _refused(id: object, custom: dict[str, object]) -> str | None:
    """Say what is wrong with the arguments, but for ``configs``; dynamo traces this, too."""
    if isinstance(id, torch.Tensor):
        return "a tensor cannot be the id of a region"
    if callable(id) and not isinstance(id, type):
        return (
            "region() was given a function as its id; to annotate the function, "
            "write @region() with parentheses"
        )
    if ANNOTATION_KEY in custom:
        return f"{ANNOTATION_KEY!r} is what region() sets itself; take id= or configs="
    return None


def _caller() -> str:
    """Return ``file:line`` of the code that called :func:`region`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
