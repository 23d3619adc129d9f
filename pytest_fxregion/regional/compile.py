"""Compile bodies with Inductor.  In: scooped bodies and their configurations; out: artifacts."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.fx import GraphModule

from pytest_fxregion._torch.artifacts import (
    cpp_kernels,
    inductor_cache_folder,
    is_standalone_compile_replaced,
    new_inductor_cache,
)
from pytest_fxregion._torch.dynamo import RestartAnalysis
from pytest_fxregion._torch.generated import generated_call, generated_source, output_strides
from pytest_fxregion._torch.graphs import without_node_metadata
from pytest_fxregion._torch.inductor import (
    annotations_read_by_inductor,
    cache_key_with,
    forget_generated_code,
    kernels_awaited_later,
    patched_inductor_config,
)
from pytest_fxregion._torch.nested_compile import (
    standalone_compile,
    tracing_with,
    without_second_remat,
    without_second_tensorify,
)
from pytest_fxregion._torch.tensors import FakeTensorMode
from pytest_fxregion.errors import RegionError
from pytest_fxregion.progress import step

from . import stored
from .artifacts import ARTIFACTS, Artifact
from .effects import only_computes
from .layout import displaced_results, with_strides_kept
from .repro import repro_script
from .sharing import FOLDING_OFF, shared_results
from .streams import only_numbered_streams

_Scope = Callable[[], AbstractContextManager[None]]


class PieceCompiler:
    """Compiles the pieces of one graph, equal ones once.

    A scope: the C++ kernels of all pieces are built side by side while further pieces are lowered,
    and are ready when it is left.  Nothing that was compiled is lost if another piece fails; what
    an interrupt leaves without its kernels is forgotten.
    """

    def __init__(self) -> None:
        self._unready: list[tuple[Hashable, _Scope, Callable[[], None]]] = []
        self._unsaved: dict[Hashable, tuple[str, stored.Kernels]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failure: Exception | None = None
        if self._unready:
            step("building C++ kernels")
        try:
            while self._unready and (error is None or isinstance(error, Exception)):
                key, failures_named, wait = self._unready[0]
                try:
                    with failures_named():
                        _wait_for_kernels(wait)
                except Exception as unbuilt:
                    failure = failure or unbuilt
                    self._forget(key)
                self._unready.pop(0)
        finally:
            for key, _, _ in self._unready:
                self._forget(key)
            if self._unready or failure or error is not None:
                forget_generated_code()  # a module whose kernels nobody waited for must not be used
        for key, (name, kernels) in self._unsaved.items():
            artifact = ARTIFACTS.get(key)
            if artifact is not None:
                stored.save(name, artifact, kernels)
        if failure is not None and error is None:
            raise failure

    def _forget(self, key: Hashable) -> None:
        ARTIFACTS.drop(key)
        self._unsaved.pop(key, None)

    def artifact(
        self,
        key: Hashable,
        body: GraphModule,
        configs: Mapping[str, object],
        mode: FakeTensorMode,
        *,
        name: str,
        sources: Sequence[str] = (),
    ) -> Artifact:
        """Return the artifact of ``body`` under ``configs``; ``body`` is left as it is.

        Works inside ``torch.compile`` and without it: where there is no tracing context of the
        values' fake mode, one is made.

        Raises :class:`RegionError` naming the region, its source lines and its configuration, with
        a script that compiles the region by itself as a note.
        """
        artifact = ARTIFACTS.get(key)
        if artifact is not None:
            return artifact
        entry = stored.entry_name(body, key, configs)
        if entry is not None:
            with patched_inductor_config(dict(configs)):
                artifact = stored.load(entry)
        if artifact is None:
            made: dict[str, Callable[[], str]] = {}
            step(f"compiling {name}")
            with cpp_kernels(made, {}):
                artifact = self._compile(key, body, configs, mode, name, sources)
            if entry is not None:
                self._unsaved[key] = (entry, made)
        ARTIFACTS.put(key, artifact)
        return artifact

    def _compile(
        self,
        key: Hashable,
        body: GraphModule,
        configs: Mapping[str, object],
        mode: FakeTensorMode,
        name: str,
        sources: Sequence[str],
    ) -> Artifact:
        where = f" ({', '.join(sources)})" if sources else ""
        about = f"{name}{where} could not be compiled"
        if configs:
            about += f" under {dict(configs)!r}"
        operands = [node.meta["val"] for node in body.graph.find_nodes(op="placeholder")]
        with (
            _failures_named(about, body, configs),
            patched_inductor_config(dict(configs)),
            cache_key_with(_cache_tag(body)),
            tracing_with(mode),
            without_node_metadata(),
            without_second_remat(),
            without_second_tensorify(),
            only_numbered_streams(body),
        ):
            waiting: list[Callable[[], None]] = []
            later = kernels_awaited_later() if _is_on_cpu(body) else nullcontext(waiting)
            try:
                with later as waiting:
                    call = _compiled(body, operands, mode)
            except RestartAnalysis:
                raise
            except Exception as error:
                if is_standalone_compile_replaced() or inductor_cache_folder() is None:
                    raise
                with new_inductor_cache():
                    call = _compiled(body, operands, mode)
                waiting = []
                warnings.warn(
                    f"{name} was compiled anew: what {inductor_cache_folder()} holds gave "
                    f"{type(error).__name__}: {error}",
                    stacklevel=2,
                )
            report = partial(_failures_named, about, body, configs)
            self._unready += [(key, report, wait) for wait in waiting]
        generated = generated_call(call) if only_computes(body) else None
        return Artifact(call, *(generated or (None, False)))


def _cache_tag(body: GraphModule) -> str:
    """Return what torch's caches have to know of a body besides what their keys hold.

    They hold no annotations (pytorch#185370), not even those that code depends on; and names in
    bodies are canonical, so that the same body under another annotation would be found.
    """
    found = [
        (prefix, i, read)
        for prefix, module in body.named_modules()
        if isinstance(module, GraphModule)
        for i, node in enumerate(module.graph.nodes)
        if (read := annotations_read_by_inductor(node))
    ]
    if not found:
        return ""
    try:
        return stored.text_of(tuple(found))
    except TypeError:  # a value that exists in this process only
        return uuid.uuid4().hex


def _compiled(body: GraphModule, operands: list[object], mode: FakeTensorMode) -> Any:
    """Compile a body; again, written otherwise, if results are not what was traced.

    They may be an operand in place of a new tensor, or have other strides.
    """
    call = standalone_compile(body, operands)
    if torch.is_grad_enabled() and any(getattr(o, "requires_grad", False) for o in operands):
        return call  # gives what the backward needs as well, and makes views from their bases
    shared = shared_results(body, generated_source(call))
    with patched_inductor_config(FOLDING_OFF) if shared else nullcontext():
        if shared:
            call = standalone_compile(body, operands)
        displaced = displaced_results(body, output_strides(call, mode))
        if displaced:
            call = standalone_compile(with_strides_kept(body, displaced), operands)
    return call


def _wait_for_kernels(wait: Callable[[], None]) -> None:
    """Wait; a library in Inductor's cache that cannot be loaded, as it was cut off, is rebuilt."""
    try:
        wait()
    except ImportError as error:
        cache = inductor_cache_folder()
        if cache is None or not error.path or not Path(error.path).is_relative_to(cache):
            raise
        Path(error.path).unlink(missing_ok=True)
        wait()


@contextmanager
def _failures_named(about: str, body: GraphModule, configs: Mapping[str, object]) -> Iterator[None]:
    """Report a failure as the region's, with a script that shows it as a note."""
    try:
        yield
    except RestartAnalysis:
        raise  # not a failure: dynamo traces again, and we are called again
    except Exception as error:
        named = RegionError(f"{about}: {type(error).__name__}: {error}")
        script = repro_script(body, configs)
        if script is not None:
            named.add_note(f"The region by itself:\n\n{script}")
        raise named from error


def _is_on_cpu(body: GraphModule) -> bool:
    vals = (node.meta.get("val") for node in body.graph.nodes)
    return all(val.device.type == "cpu" for val in vals if isinstance(val, torch.Tensor))
