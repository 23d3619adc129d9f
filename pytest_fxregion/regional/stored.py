"""Artifacts that outlive the process.  In: a body with its key, an artifact; out: the same, later.

They lie in a folder of Inductor's cache that belongs to this user alone, an entry for each body,
named by a digest of the body's fingerprint and of the compiler.  What is found is verified: an
entry that was cut off, or is of another form, is a body to be compiled.

Only what a digest can tell apart is kept: operators of torch's own on tensors of fixed size, and no
pass or lowering of the user's.  For the rest Inductor's caches serve, as they do for any graph.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import tempfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pytest_fxregion._torch.artifacts import (
    compiler_stamp,
    cpp_kernels,
    dumped_artifact,
    has_own_lowerings_only,
    has_plain_inductor_config,
    inductor_cache_folder,
    is_standalone_compile_replaced,
    loaded_artifact,
    loaded_graph,
)
from pytest_fxregion._torch.operators import OpOverload
from pytest_fxregion._torch.tensors import is_plain_tensor
from pytest_fxregion.cache import own_subfolder

from .artifacts import Artifact
from .fingerprint import Identity
from .symbols import free_symbols_of

_FORMAT = b"fxregion artifact 1\n"
_NAMESPACES = ("aten", "prims")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)

Kernels = Mapping[str, Callable[[], str]]
"""For the digest of a C++ kernel's source, what gives the path of its library once it is built."""


class StoredCall:
    """A stored artifact's call.  Its wrappers are made when they are first needed: mostly never."""

    def __init__(self, data: bytes, graph: Any, kernels: Mapping[str, str]) -> None:
        self.compiled_fn = graph
        self._data = data
        self._kernels = kernels
        self._artifact: Any = None

    def artifact(self) -> Any:
        """Return the artifact of torch's own form."""
        if self._artifact is None:
            with cpp_kernels({}, self._kernels):
                self._artifact = loaded_artifact(self._data)
        return self._artifact

    def __call__(self, *operands: object) -> Any:
        """Run the body."""
        return self.artifact()(*operands)


def entry_name(body: GraphModule, key: Hashable, configs: Mapping[str, object]) -> str | None:
    """Name the entry of a body; None if it is not one to keep, or if nothing is kept at all."""
    if is_standalone_compile_replaced() or inductor_cache_folder() is None:
        return None
    if not (has_plain_inductor_config() and has_own_lowerings_only()):
        return None
    if not all(map(_is_portable, body.graph.nodes)) or not _is_plain(configs):
        return None
    try:
        text = text_of(key)
    except TypeError:
        return None
    return hashlib.sha256(f"{compiler_stamp()} {text}".encode()).hexdigest()


def load(name: str) -> Artifact | None:
    """Return the artifact of an entry; None if there is none, or none that can be used."""
    folder = _folder()
    if folder is None:
        return None
    path = folder / f"{name}.region"
    try:
        content = path.read_bytes()
        form, digest, payload = content[: len(_FORMAT)], content[len(_FORMAT) :][:32], content[52:]
        if form != _FORMAT or hashlib.sha256(payload).digest() != digest:
            raise ValueError("not a whole entry")
        head, _, data = payload.partition(b"\n")
        about = json.loads(head)
        kernels = {source: _library(folder, found) for source, found in about["kernels"].items()}
        with cpp_kernels({}, kernels):
            if not about["lean"]:
                return Artifact(loaded_artifact(data[about["graph"] :]), None, False)
            graph = loaded_graph(data[: about["graph"]], str(folder))
        call = StoredCall(data[about["graph"] :], graph, kernels)
        return Artifact(call, graph.current_callable, about["casts"])
    except FileNotFoundError:
        return None
    except Exception:  # whatever a broken entry, or one of a broken kernel, may raise
        path.unlink(missing_ok=True)
        return None


def save(name: str, artifact: Artifact, kernels: Kernels) -> None:
    """Keep an artifact whose kernels are ready; where that cannot be, do nothing."""
    folder = _folder()
    if folder is None:
        return
    try:
        dumped = dumped_artifact(artifact.call)
        if dumped is None:
            return
        graph, whole = dumped
        about = {
            "graph": len(graph),
            "lean": artifact.generated is not None,
            "casts": artifact.casts,
            "kernels": {source: _keep_library(folder, path()) for source, path in kernels.items()},
        }
        payload = json.dumps(about).encode() + b"\n" + graph + whole
        content = _FORMAT + hashlib.sha256(payload).digest() + payload
        _write(folder / f"{name}.region", content)
    except Exception:  # what cannot be pickled, or written, is compiled the next time
        return


def _folder() -> Path | None:
    cache = inductor_cache_folder()
    return None if cache is None else own_subfolder(Path(cache), "fxregion")


def _library(folder: Path, digest: str) -> str:
    path = folder / f"{digest}.so"
    if not _is_whole(path, digest):
        raise ValueError("not a whole library")
    return str(path)


def _is_whole(path: Path, digest: str) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _keep_library(folder: Path, path: str) -> str:
    content = Path(path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    kept = folder / f"{digest}.so"
    if not _is_whole(kept, digest):
        _write(kept, content)
    return digest


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, whatever ends the process."""
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _is_portable(node: Node) -> bool:
    """Whether the node means the same in every process: an operator of torch's on fixed sizes."""
    value = node.meta.get("val")
    if free_symbols_of(value):
        return False
    if node.op == "placeholder":
        return isinstance(value, torch.Tensor) and is_plain_tensor(value)
    if node.op == "call_function":
        target = node.target
        if isinstance(target, OpOverload):
            return target.namespace in _NAMESPACES
        return target is operator.getitem
    return node.op == "output"


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.keys())) and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def text_of(key: object) -> str:
    """Write a value so that equal values, and only they, are equal text in every process.

    Raises :class:`TypeError` if a part of it exists in this process only.
    """
    if isinstance(key, (tuple, list)):
        return f"{type(key).__name__}({','.join(map(text_of, key))})"
    if isinstance(key, (frozenset, set)):
        return f"set({','.join(sorted(map(text_of, key)))})"
    if isinstance(key, Mapping):
        return f"mapping({','.join(sorted(map(text_of, key.items())))})"
    if isinstance(key, Identity) and key.object is operator.getitem:
        return "getitem"
    if isinstance(key, (*_PLAIN, *_TORCH)):
        return f"{type(key).__name__}:{key!r}"
    raise TypeError(f"{type(key).__name__} exists in this process only")
