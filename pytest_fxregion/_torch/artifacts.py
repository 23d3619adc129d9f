"""Compiled artifacts on disk: written, read back, and what decides whether one still fits.

An artifact is what ``torch._inductor.standalone_compile(..., aot=True)`` returns.
"""

from __future__ import annotations

import atexit
import copy
import functools
import hashlib
import os
import pickle
import platform
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch._inductor

# Sets, or with None suspends, the context of the compile in progress.  2.11 to 2.15.
from torch._guards import tracing

# The artifact's class: serialises itself.  2.11 to 2.15.
from torch._inductor.standalone_compile import AOTCompiledArtifact as AOTCompiledArtifact

from pytest_fxregion._torch.generated import compiled_graph
from pytest_fxregion._torch.inductor import inductor_config_keys
from pytest_fxregion._torch.tensors import new_fake_mode


def compiler_stamp() -> str:
    """Digest of everything about this installation and machine that decides what code is made.

    What the virtual device changes while it is active is read each time, the rest once.
    """
    now = (torch.version.cuda, os.environ.get("TRITON_INTERPRET"))
    return hashlib.sha256(f"{_installation()} {now}".encode()).hexdigest()


@functools.cache
def _installation() -> str:
    """Digest of what does not change in a process.

    Versions, the processor's instructions, and name, size and time of every Python file of torch,
    Triton, the region engine and these modules: an edit of Inductor is another compiler.
    (torch's own key reads all those files, which takes ten times as long.)
    """
    packages = [
        os.path.dirname(str(torch.__file__)),
        os.path.dirname(__file__),
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "regional"),
    ]
    versions: list[object] = [
        sys.version,
        platform.machine(),
        torch.__version__,
        torch.version.git_version,
        torch.backends.cpu.get_cpu_capability(),
        _processor_flags(),
    ]
    try:
        import triton
    except ImportError:
        pass
    else:
        versions.append(triton.__version__)
        packages.append(os.path.dirname(str(triton.__file__)))
    digest = hashlib.sha256(repr(versions).encode())
    for package in packages:
        digest.update(repr(sorted(_python_files(package))).encode())
    return digest.hexdigest()


def _python_files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _python_files(entry.path)
            elif entry.name.endswith(".py"):
                info = entry.stat()
                yield entry.path, info.st_size, info.st_mtime_ns


def _processor_flags() -> str:
    """The instruction sets of the processor, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def inductor_cache_folder() -> str | None:
    """Where Inductor keeps what it compiled; None if its caches are off.  2.11 to 2.15."""
    from torch._inductor import config
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    if config.force_disable_caches or not config.fx_graph_cache:
        return None
    return cache_dir()


@contextmanager
def new_inductor_cache() -> Iterator[None]:
    """A scope in which Inductor's caches are empty; what it puts there stays to the process's end.

    ``fresh_cache(dir=, delete=)``: 2.11 to 2.15.
    """
    from torch._inductor.utils import fresh_cache

    folder = tempfile.mkdtemp(prefix="fxregion-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    failure: Exception | None = None
    with fresh_cache(dir=folder, delete=False):  # would log every failure that it sees
        try:
            yield
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure


def is_standalone_compile_replaced() -> bool:
    """Whether somebody looks on while regions are compiled, or compiles them in another way."""
    return getattr(torch._inductor.standalone_compile, "__module__", None) != "torch._inductor"


def has_plain_inductor_config() -> bool:
    """Whether no option of Inductor holds code (a pass of the user's), which no key can tell."""
    from torch._inductor import config

    with warnings.catch_warnings():  # of options that a version gave up; 2.15
        warnings.simplefilter("ignore", FutureWarning)
        return not any(callable(getattr(config, name, None)) for name in inductor_config_keys())


def has_own_lowerings_only() -> bool:
    """Whether Inductor's tables hold only what torch put there.  Not imported: not changed.

    ``decomposition.decompositions``, ``lowering.user_lowerings``: 2.11 to 2.15.
    """
    decomposition = sys.modules.get("torch._inductor.decomposition")
    lowering = sys.modules.get("torch._inductor.lowering")
    if getattr(lowering, "user_lowerings", None):
        return False
    table = getattr(decomposition, "decompositions", {})
    modules = {getattr(function, "__module__", None) or "torch" for function in table.values()}
    return all(name.startswith(("torch", "functools")) for name in modules)


@contextmanager
def cpp_kernels(made: dict[str, Callable[[], str]], known: Mapping[str, str]) -> Iterator[None]:
    """A scope in which C++ kernels in ``known`` are loaded from there instead of being built.

    ``known``: paths of shared libraries by a digest of the kernel's source.  ``made`` takes, for
    every other kernel, a function that gives its library's path once it is built.  Saves looking
    for a compiler and for the CPU's vector instructions, which a kernel that was built once has.
    ``AsyncCompile.cpp_pybinding(argtypes, source)``, ``CppPythonBindingsCodeCache``: 2.11 to 2.15.
    """
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    build = AsyncCompile.cpp_pybinding
    thread = threading.get_ident()

    def take(self: AsyncCompile, *args: Any) -> Any:
        if threading.get_ident() != thread:
            return build(self, *args)
        digest = hashlib.sha256(repr(args).encode()).hexdigest()
        if digest in known:
            library = CppPythonBindingsCodeCache._load_library(known[digest], digest)
            return getattr(library, CppPythonBindingsCodeCache.entry_function)
        kernel = build(self, *args)

        def path() -> str:
            function = kernel.result() if hasattr(kernel, "result") else kernel
            return str(function.__self__.__file__)

        made[digest] = path
        return kernel

    AsyncCompile.cpp_pybinding = take  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        AsyncCompile.cpp_pybinding = build  # type: ignore[method-assign]


def dumped_artifact(artifact: Any) -> tuple[bytes, bytes] | None:
    """Serialise an artifact of :func:`standalone_compile`: its graph, and all; None if it can't be.

    The graph by itself does without Inductor's tables of operators, which take a second to import.
    ``AOTCompiledArtifact.serialize``, ``CompiledFxGraph.prepare_for_serialization``: 2.11 to 2.15.
    """
    if not isinstance(artifact, AOTCompiledArtifact):
        return None
    found = compiled_graph(artifact)
    if found is None or found.constants or getattr(found, "torchbind_constants", None):
        return None
    graph = copy.copy(found)
    graph.prepare_for_serialization()
    graph.fx_kwargs = {}  # how it was compiled; names the tables
    return pickle.dumps(graph), artifact.serialize()


def loaded_artifact(data: bytes) -> Any:
    """Make an artifact from its serialised form, with all its wrappers."""
    with tracing(None):
        return AOTCompiledArtifact.deserialize(data)


def loaded_graph(data: bytes, folder: str) -> Any:
    """Make what Inductor compiled from its serialised form, ready to be called.

    Its module is written to ``folder``, where nothing but this function may write, and takes no
    other import than it needs: the one of Inductor's templates is half a second.
    """
    from torch._inductor.codecache import PyCodeCache, write_atomic
    from torch._inductor.output_code import CompiledFxGraphConstants
    from torch._inductor.triton_bundler import TritonBundler
    from torch._inductor.utils import BoxedBool

    graph = pickle.loads(data)
    if graph._triton_bundle:
        TritonBundler.read_and_emit(graph._triton_bundle)
    source = graph.source_code
    if source.count("extern_kernels") == 1:
        source = source.replace(_TEMPLATES_IMPORT, "")
    key = hashlib.sha256(source.encode()).hexdigest()
    path = os.path.join(folder, f"m{key}.py")
    if not _has_content(path, source):
        write_atomic(path, source)
    module = PyCodeCache.load_by_key_path(f"m{key}", path, graph.cache_linemap, {})
    graph.current_callable = module.call
    graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
    graph.compiled_fn_runner = getattr(module, "runner", None)
    kwargs = {"cudagraphs": BoxedBool(False), "is_backward": False}
    with tracing(None):  # a graph that is being compiled would take our strides for its own
        graph.post_compile([], CompiledFxGraphConstants(), kwargs)
    return graph


def dumped_module(module: torch.fx.GraphModule) -> bytes:
    """Pickle a graph with what it calls, artifacts included, and without its nodes' metadata.

    ``GraphPickler``, ``Options``: 2.11 to 2.15.
    """
    from torch.fx._graph_pickler import GraphPickler, Options

    return GraphPickler.dumps(
        module, Options(ops_filter=None, node_metadata_key_filter=lambda _: False)
    )


def loaded_module(data: bytes) -> torch.fx.GraphModule:
    """Make a graph that :func:`dumped_module` pickled."""
    from torch.fx._graph_pickler import GraphPickler

    with tracing(None):
        loaded = GraphPickler.loads(data, new_fake_mode())
    if not isinstance(loaded, torch.fx.GraphModule):
        raise TypeError(f"a graph was pickled, {type(loaded).__name__} came back")
    return loaded


_TEMPLATES_IMPORT = "from torch._inductor.select_algorithm import extern_kernels\n"


def _has_content(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except (OSError, ValueError):
        return False
