"""Every private name of torch that this package uses, each with what it is for.

The rest of the package imports these from here and reads as if torch had a public API.  Beside each
name stands what it is for and in which torch versions it was seen (2.11 to 2.15 unless said).
Importing this module imports torch; nothing that pytest loads at start-up may do so.
"""

# Each block below belongs to one stage of the pipeline, in the order in which data flows.

from __future__ import annotations

# --- capture: how torch traces a joint graph ---
import functools
import threading
import types
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

# The builder of backends on AOTAutograd: traces, partitions and calls the two compilers.
from torch._dynamo.backends.common import aot_autograd as aot_autograd

# Where the joint graph's tracer finishes (and copies forward metadata); replaced by our own passes.
from torch._functorch._aot_autograd import graph_capture as joint_capture

# Where operations with Python floats are made ones with tensors (`tensorify_python_scalars`).
from torch._functorch._aot_autograd import graph_compile as joint_compile

# Where waits between streams are put into the backward, by `custom["stream"]`; 2.11 to 2.15.
from torch._functorch._aot_autograd import streams as joint_streams

# Splits the joint graph in two, saving what eager would save; does what the AC tags ask for.
from torch._functorch.partitioners import default_partition as default_partition

# Splits it so that a budget of memory is kept: honours `region_activation_memory_budget`, 2.13 on.
from torch._functorch.partitioners import (
    min_cut_rematerialization_partition as min_cut_partition,
)

# The tensor class that stands for a functionalised value while AOTAutograd traces.
from torch._subclasses.functional_tensor import FunctionalTensor

# Which tracer is recording, and which node of it a tensor stands for.
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

AutogradNode = torch.autograd.graph.Node


def current_tracer() -> Any | None:
    """Return the tracer that records what runs now, or None outside of tracing."""
    mode = get_proxy_mode()
    return None if mode is None else mode.tracer


def node_of_traced_tensor(tensor: torch.Tensor, tracer: Any) -> fx.Node | None:
    """Return the node of ``tracer``'s graph that computes ``tensor``, or None if it has none."""
    if isinstance(tensor, FunctionalTensor):
        tensor = torch._from_functional_tensor(tensor.elem)
    slot = get_proxy_slot(tensor, tracer, None)
    return None if slot is None else slot.proxy.node


def written_inputs(graph: fx.Graph) -> list[str]:
    """Return the inputs of a joint graph that AOTAutograd writes to once the forward is over.

    ``InputMutationAOTOutput`` and ``meta["desc"]``: 2.11 to 2.15.
    """
    from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput

    returned = tree_leaves(graph.output_node().meta.get("desc"))
    written = [d.mutated_input for d in returned if isinstance(d, InputMutationAOTOutput)]
    return [p.name for p in graph.find_nodes(op="placeholder") if p.meta.get("desc") in written]


def memory_budget(node: fx.Node) -> float | None:
    """Return the budget that ``region_activation_memory_budget`` annotates a node with, 2.13 on."""
    key = getattr(torch.fx.traceback, "MEMORY_BUDGET_ANNOTATION_KEY", None)
    custom = node.meta.get("custom")
    return custom.get(key) if isinstance(custom, dict) else None


def without_merging_of_equal_nodes() -> AbstractContextManager[None]:
    """A scope in which torch's partitioner leaves equal nodes alone: it heeds no annotation."""
    from torch._functorch import config

    return config.patch(cse=False)  # type: ignore[no-any-return]


def sequence_number(node: AutogradNode) -> int:
    """Return the number that an autograd node shares with the operation that it belongs to."""
    return int(node._sequence_nr())  # 2.11 to 2.15


def inner_tensors(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that a wrapper subclass is made of, down to plain ones; else itself.

    ``__tensor_flatten__`` and ``is_traceable_wrapper_subclass``: 2.11 to 2.15.
    """
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not is_traceable_wrapper_subclass(tensor):
        return (tensor,)
    names, _ = tensor.__tensor_flatten__()
    parts = [getattr(tensor, name) for name in names]
    return tuple(
        inner for part in parts if isinstance(part, torch.Tensor) for inner in inner_tensors(part)
    )


def operator_under_rng_state(node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Return the random operator that a node calls under a saved or restored state; else None.

    With its own arguments.  ``rng_prims``: 2.11 to 2.15.
    """
    from torch._prims import rng_prims

    kwargs = dict(node.kwargs)
    if node.target is rng_prims.run_with_rng_state:
        return node.args[1], node.args[2:], kwargs
    if node.target in (rng_prims.run_and_save_rng_state, rng_prims.graphsafe_run_with_rng_state):
        kwargs.pop("rng_state", None)
        return node.args[0], node.args[1:], kwargs
    return None


def is_stream_of_dynamo(number: object) -> bool:
    """Whether a number is one that dynamo gave to a stream of the function that it traces.

    ``get_external_object_by_index``: 2.11 to 2.15.
    """
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    if not isinstance(number, int) or number < 0:
        return False
    try:
        return isinstance(get_external_object_by_index(number), torch.Stream)
    except AssertionError:  # nothing has this number
        return False


# --- execution and checks: containers, sizes, what runs ---

# Nested containers, as torch.compile itself flattens arguments and results.
# Base of modes that see every operation that reaches the dispatcher.
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode

# Whether a value is of a tensor subclass that says which tensors it is made of.
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves, tree_map


def parts_of(value: object) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """Return what is in a container that pytree knows, and what makes one of others.

    One level of it, where ``tree_map`` and its like call themselves for the next; None for a leaf.
    ``SUPPORTED_NODES``, ``_get_node_type`` (of a named tuple its kind): 2.11 to 2.15.
    """
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(value))
    if node is None:
        return None
    parts, context = node.flatten_fn(value)
    return list(parts), lambda others: node.unflatten_fn(others, context)


def named_parts_of(value: object) -> list[tuple[str, Any]] | None:
    """Return what is in a container that pytree knows, by ``.name`` or ``[key]``; None for a leaf.

    A class may be registered without names; then they are numbers.
    """
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(value))
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return [(f"[{number}]", part) for number, part in enumerate(node.flatten_fn(value)[0])]
    return [(str(key), part) for key, part in node.flatten_with_keys_fn(value)[0]]


def is_wrapper_subclass(value: object) -> typing.TypeGuard[Any]:
    """Whether a value is a tensor made of other tensors, by ``__tensor_flatten__``."""
    return bool(is_traceable_wrapper_subclass(value))


def size_hint(size: int | torch.SymInt) -> int:
    """Return the number that a size has in the traced call; -1 if only running it would tell."""
    if isinstance(size, int):
        return size
    # A length of a jagged tensor that is not being traced has no hint; it is no number at all.
    hint = getattr(size.node, "hint", None)
    return -1 if hint is None else int(hint)


def possible_size(size: int | torch.SymInt) -> int:
    """Return a number that a size may have, for all sizes of a graph alike.

    That of the traced call; for a symbol of which only running would tell, the least that it may be
    and that is not special.  ``ShapeEnv.backed_var_to_val``, ``var_to_range``: 2.11 to 2.15.
    """
    if isinstance(size, int):
        return size
    known, ranges = size.node.shape_env.backed_var_to_val, size.node.shape_env.var_to_range
    unknown = {s: max(2, ranges[s].lower) for s in size.node.expr.free_symbols if s not in known}
    return int(size.node.expr.xreplace({**known, **unknown}))


def untyped_size(tensor: torch.Tensor) -> int | torch.SymInt:
    """Return the bytes of a tensor's elements, an expression where its shape is one."""
    return tensor.numel() * tensor.element_size()


def times_written(tensor: torch.Tensor) -> int:
    """Return how often operations have changed the tensor in place since it was made."""
    return tensor._version


def was_written(tensor: torch.Tensor) -> bool:
    """Whether an operation has changed the tensor in place since it was made.

    That of an inference tensor is not known.
    """
    return not tensor.is_inference() and times_written(tensor) > 0


def hooks_of(tensor: torch.Tensor) -> list[Any]:
    """Return the hooks that are called with a tensor's gradient; ``_backward_hooks``, 2.11 to 2.15.

    Those that were registered by ``Tensor.register_hook``.
    """
    return list((tensor._backward_hooks or {}).values()) if tensor.is_leaf else []


def post_accumulate_hooks_of(tensor: torch.Tensor) -> list[Any]:
    """Return the hooks of ``register_post_accumulate_grad_hook``.

    ``Tensor._post_accumulate_grad_hooks``: 2.11 to 2.15.
    """
    return list((getattr(tensor, "_post_accumulate_grad_hooks", None) or {}).values())


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that autograd takes ``tensor`` for a view of; None if it is no view."""
    return tensor._base


def input_forms(node: AutogradNode) -> tuple[Any, ...]:
    """Return dtype and shape of each gradient that an autograd node takes, 2.11 to 2.15.

    Those are the results of the operation that made it.
    """
    return tuple(node._input_metadata)


def has_gradient_edge(tensor: torch.Tensor) -> bool:
    """Whether a backward can start from ``tensor``.

    A view that was taken under ``no_grad`` of what requires a gradient says that it does, too, and
    has neither a ``grad_fn`` nor a node that collects its gradient.
    """
    if tensor.grad_fn is not None or not tensor.requires_grad:
        return tensor.requires_grad
    with torch.enable_grad():
        view = tensor.view_as(tensor)
    return view.grad_fn is not None and view.grad_fn.next_functions[0][0] is not None


def is_compiled(function: object) -> bool:
    """Whether a function or module is what ``torch.compile`` gave.

    ``OptimizedModule``, ``_torchdynamo_orig_callable``, ``_torchdynamo_disable``: 2.11 to 2.15.
    """
    from torch._dynamo.eval_frame import OptimizedModule

    if issubclass(type(function), OptimizedModule):  # a proxy may say that it is of any class
        return True
    is_wrapper = type(function) in (types.FunctionType, types.MethodType)
    is_wrapper = is_wrapper and hasattr(function, "_torchdynamo_orig_callable")
    return is_wrapper and not getattr(function, "_torchdynamo_disable", False)


def as_written(function: Any) -> Any:
    """Return what ``torch.compile`` was given where ``function`` is what it gave; else itself."""
    while is_compiled(function):
        is_module = isinstance(function, torch.nn.Module)
        function = function._orig_mod if is_module else function._torchdynamo_orig_callable
    return function


def forget_compiled_call(module: torch.nn.Module) -> None:
    """Undo ``module.compile()``; ``Module._compiled_call_impl``: 2.11 to 2.15."""
    if module._compiled_call_impl is not None:
        module._compiled_call_impl = None


# --- harness ---


def reset_compiler() -> None:
    """Forget every compiled function of this process.

    The first time, this imports Inductor, which warns of torch's own deprecated code; a test that
    turns warnings into errors is not to fail of that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()


def graph_breaks() -> Counter[str]:
    """Return how often each reason has broken a graph of this process, in dynamo's words.

    Those for which a whole function was left to eager, as a break in a loop is, are counted apart,
    among what was given up in tracing.  ``torch._dynamo.utils.counters``: 2.11 to 2.15.
    """
    from torch._dynamo.utils import counters

    skipped = {r: n for r, n in counters["unimplemented"].items() if "frame skipped" in r}
    return Counter(counters["graph_break"]) + Counter(skipped)


# --- regional: effects, constants and compiling of pieces ---

# Inductor, whose `standalone_compile` is looked up at call time, and its configuration.
import torch._inductor
import torch.fx.traceback
from torch import _C

# Dynamo's way of saying "trace again, otherwise": must pass through a compiler untouched.
from torch._dynamo.exc import RestartAnalysis as RestartAnalysis

# What AOTAutograd's cache takes for a compiled function, and how to tell it not to save one.
from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache as BypassAOTAutogradCache,
)

# Finds the tracing context of the compile in progress, and sets one where there is none.
from torch._guards import TracingContext, tracing
from torch._inductor.output_code import OutputCode as OutputCode

# The operator with a schema, and the operators that take subgraphs.
from torch._ops import HigherOrderOperator as HigherOrderOperator
from torch._ops import OpOverload as OpOverload

# The mode and tensor class of values without data.
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch.fx import _lazy_graph_module
from torch.fx import graph as _fx_graph
from torch.fx import node as _fx_node

# Flattens a call's arguments as a graph with structured inputs expects them.
from torch.fx._pytree import tree_flatten_spec as tree_flatten_spec

# The code generator of flat graphs.
from torch.fx.graph import CodeGen as CodeGen

# One argument of an operator's schema: its name, and whether it is written to.
SchemaArgument = _C.Argument

# A graph module that writes its Python code when it is first called: code writing is most of the
# cost of making one.
LazyGraphModule = _lazy_graph_module._LazyGraphModule

# The code generator of graphs with structured inputs (torch.export).
PyTreeCodeGen = _fx_graph._PyTreeCodeGen

# Functions that fx keeps because of what they do besides computing.
side_effectful_functions = _fx_node._side_effectful_functions

# Those of them that change how every later node runs.
global_state_switches = frozenset(_fx_node._side_effectful_need_to_be_preserved_pre_dispatch)


def nested_region_configs(options: object, *, backward: bool) -> dict[str, object] | None:
    """Return the configuration under which Inductor is to compile a nested region; None if not.

    ``options`` are those of ``torch.compiler.nested_compile_region``, in ``custom`` under
    ``nested_region_config`` (pytorch#167599; 2.11 to 2.15).  Raises :class:`TypeError` if they name
    another compiler than torch's ``invoke_subgraph_inductor_compile``.
    """
    from torch._higher_order_ops.invoke_subgraph import (
        NestedCompileRegionOptions,
        invoke_subgraph_inductor_compile,
    )

    if not isinstance(options, NestedCompileRegionOptions):
        return None
    compiler = options.bw_compiler if backward else options.fw_compiler
    if compiler is None:
        return None
    if getattr(compiler, "func", compiler) is not invoke_subgraph_inductor_compile:
        raise TypeError(f"a compiler of its own ({compiler!r})")
    patches = getattr(compiler, "keywords", {}).get("inductor_config_patches") or {}
    # What 2.11 to 2.13 ask for where nothing is asked for, and `standalone_compile` sets anyway.
    default = ("triton.autotune_at_compile_time", True)
    return {key: value for key, value in patches.items() if (key, value) != default}


def annotations_read_by_inductor(node: fx.Node) -> dict[str, object]:
    """Return those of a node's annotations by which Inductor makes other code.

    Operations that are left to eager (2.13 on), pools of memory and the configuration of nested
    regions (2.14 on), and streams of the program (2.11 to 2.15).
    """
    custom = node.meta.get("custom")
    if not isinstance(custom, Mapping):
        return {}
    found = {key: custom[key] for key in _READ_BY_INDUCTOR if key in custom}
    if "stream" in custom and is_stream_of_dynamo(custom["stream"]):
        found["stream"] = custom["stream"]
    configs = getattr(custom.get("nested_region_config"), "inductor_config_patches", None)
    if configs:
        found["nested_region_config"] = dict(configs)
    return found


_READ_BY_INDUCTOR = ("fallback_to_eager", "mempool", "mempool_device")


def schema_of(operator: OpOverload) -> Any:
    """Return an operator's schema: what its arguments are, which alias and which are written."""
    return operator._schema


def decomposition_of(operator: OpOverload) -> Callable[..., Any] | None:
    """Return what an operator is made of, if torch says so.

    ``torch._decomp.decomposition_table``: 2.11 to 2.15.
    """
    from torch._decomp import decomposition_table

    return decomposition_table.get(operator)


def codegen_of(graph: fx.Graph) -> CodeGen:
    """Return what writes a graph's Python code, and so decides how it is called."""
    return graph._codegen


def storage_key(value: object) -> tuple[int, ...]:
    """Identities of the storages of a tensor, or of the tensors of a sequence; else empty."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return ()
        return (value.untyped_storage()._cdata,)
    if isinstance(value, (tuple, list)):
        return tuple(key for item in value for key in storage_key(item))
    return ()


@functools.cache
def inductor_config_keys() -> frozenset[str]:
    """Every name that torch._inductor.config knows, dotted ones included."""
    from torch._inductor import config

    return frozenset(config._config)  # type: ignore[attr-defined]


def inductor_config_type(key: str) -> tuple[type, ...]:
    """The types that an Inductor config's value may have; empty where any value may do."""
    from torch._inductor import config

    found = _plain_types(config.get_type(key))  # type: ignore[attr-defined]
    return () if found == (type(None),) else found  # a default of None says nothing about others


def _plain_types(annotation: object) -> tuple[type, ...]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [_plain_types(member) for member in typing.get_args(annotation)]
        return tuple(t for m in members for t in m) if all(members) else ()
    if origin is typing.Literal:
        return tuple({type(value) for value in typing.get_args(annotation)})
    if annotation is None or annotation is type(None):
        return (type(None),)
    if annotation in (float, int):
        return (float, int)
    return (annotation,) if annotation in (bool, str) else ()


def patched_inductor_config(changes: dict[str, object]) -> AbstractContextManager[None]:
    """A scope in which Inductor's configuration has the changes."""
    from torch._inductor import config

    return config.patch(changes)  # type: ignore[no-any-return]


def cache_key_with(tag: str) -> AbstractContextManager[None]:
    """Make ``tag`` a part of what torch's caches look a compilation up by; ``patch``: 2.11 on."""
    from torch.compiler import config

    patched = config.patch(cache_key_tag=config.cache_key_tag + tag)  # type: ignore[attr-defined]
    return patched  # type: ignore[no-any-return]


def without_second_remat() -> AbstractContextManager[None]:
    """A scope in which a nested compile does not rematerialise what the outer one has laid out."""
    from torch._functorch import config

    name = "remat_using_tags_for_fwd_loss_bwd_graph"  # since 2.12
    return config.patch({name: False}) if hasattr(config, name) else nullcontext()


def without_second_tensorify() -> AbstractContextManager[object]:
    """A scope in which a nested compile leaves floats that are made of sizes what they are.

    The pass asks for each symbol as an input of its own, as dynamo's graphs have it and pieces do
    not.  ``tensorify_python_scalars``: 2.11 to 2.15.
    """
    return patch.object(joint_compile, "tensorify_python_scalars", lambda *_: None)


def without_node_metadata() -> AbstractContextManager[None]:
    """A scope in which new nodes take no metadata from the nodes around them."""
    return torch.fx.traceback.preserve_node_meta(enable=False)


def tracing_with(mode: FakeTensorMode) -> AbstractContextManager[object]:
    """The tracing context of ``mode``: the present one if it is that mode's, else a new one.

    In the present one nothing is said of the strides of a forward's outputs: AOTAutograd would take
    them for those of the graph that it compiles (``TracingContext.output_strides``, 2.11 to 2.15).
    """
    context = TracingContext.try_get()
    if context is not None and context.fake_mode is mode:
        return TracingContext.patch(output_strides=None)
    return tracing(TracingContext(mode))


def new_fake_mode() -> FakeTensorMode:
    """A mode for values of static shape."""
    return FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())


def standalone_compile(module: fx.GraphModule, inputs: list[Any]) -> Any:
    """Compile a graph with Inductor, shapes as in the present tracing context.

    Looked up at call time, so that a test may put its own in ``torch._inductor``.
    """
    return torch._inductor.standalone_compile(
        module, inputs, dynamic_shapes="from_tracing_context", aot=True
    )


# --- readable: what a graph's text is made from ---

# All overloads of one operator.
from torch._ops import OpOverloadPacket as OpOverloadPacket

# What shape propagation records of a tensor, in `node.meta["tensor_meta"]`.
from torch.fx.passes.shape_prop import TensorMetadata as TensorMetadata


def has_content(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` itself holds numbers (it may still be a subclass made of such ones)."""
    return not (tensor.is_meta or isinstance(tensor, (FakeTensor, FunctionalTensor)))


def without_dispatch_modes() -> AbstractContextManager[object]:
    """Suspend fake and tracing modes in a scope, so that a constant's content can be read."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def shard_order_of(tensor: Any) -> dict[int, tuple[int, ...]]:
    """Return, by tensor dimension, the mesh dimensions that shard a DTensor, in their order.

    ``DTensorSpec.shard_order``: 2.11 to 2.15.
    """
    order = getattr(tensor._spec, "shard_order", None) or ()
    return {entry.tensor_dim: tuple(entry.mesh_dims) for entry in order}


def triton_kernel(index: int) -> object:
    """Return the user's Triton kernel that a graph calls by ``index``, or None if it is gone.

    A graph cannot hold it, so torch keeps it in a table of the process: ``kernel_side_table``, 2.11
    to 2.15.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.id_to_kernel.get(index)


def triton_constant_args(index: object) -> dict[str, Any]:
    """Return the arguments of that call that a graph cannot hold; none if they are gone."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    if not isinstance(index, int):
        return {}
    return kernel_side_table.constant_args.get(index, {})


def is_plain_tensor(value: torch.Tensor) -> bool:
    """Whether a (fake) tensor is strided and of no subclass with a behaviour of its own."""
    plain = type(value) in (FakeTensor, torch.Tensor, torch.nn.Parameter)
    return plain and value.layout is torch.strided


def ambient_compile_state() -> tuple[object, ...]:
    """What a compile depends on besides its graph: modes, defaults, and the compilers' options."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    device_types = ("cpu", "cuda")
    deterministic_settings: Any = torch.utils.deterministic
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple((torch.is_autocast_enabled(t), torch.get_autocast_dtype(t)) for t in device_types),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.mkldnn.enabled,
        deterministic_settings.fill_uninitialized_memory,
        inductor_config.get_hash(),
        functorch_config.get_hash(),
    )


def forget_on_reset(owner: Any) -> None:
    """Have ``owner.reset()`` called, once, by the next ``torch._dynamo.reset()``."""
    from torch._dynamo.eval_frame import cached_backends

    cached_backends.setdefault(id(owner), owner)


def is_functorch_active() -> bool:
    """Whether code runs under vmap, grad or another functorch transform."""
    return _C._functorch.peek_interpreter_stack() is not None


def is_autocast_active() -> bool:
    """Whether any device's autocast would change what operators compute."""
    return _C._is_any_autocast_enabled()


# The wrappers between an artifact and its compiled graph that do nothing for a graph without
# autograd, mutated inputs or aliased outputs (2.11 to 2.15).  Any other wrapper is kept.
_TRANSPARENT_WRAPPERS = (
    "DisableContext.__call__.<locals>._fn",
    "aot_module_simplified.<locals>.forward",
    "_create_runtime_wrapper.<locals>.runtime_wrapper",
    "FunctionalizedRngRuntimeWrapper.post_compile.<locals>.wrapper",  # 2.11
    "EffectTokensWrapper.post_compile.<locals>.inner_fn",  # 2.11, around what was just compiled
)

# How the function that Inductor writes refers to operators.
_OPERATOR_PREFIXES = ("torch.ops.", "aten.", "extern_kernels.", "inductor_ops.")


def generated_call(artifact: Any) -> tuple[Any, bool] | None:
    """The function that Inductor generated, and whether it calls operators besides its kernels.

    The function takes a list, which it empties, and gives a sequence.  None if something between it
    and the artifact may matter: input mutation, functionalised random numbers, subclasses,
    autograd, or a wrapper of a torch version that is not known here.
    """
    from torch._inductor.output_code import CompiledFxGraph

    found: Any = getattr(getattr(artifact, "inner_fn", None), "compiled_fn", None)
    while not isinstance(found, CompiledFxGraph):
        found = getattr(found, "compiled_fn", found)
        if isinstance(found, CompiledFxGraph):
            break
        code = getattr(found, "__code__", None)
        if code is None or code.co_qualname not in _TRANSPARENT_WRAPPERS:
            return None
        cells = dict(zip(code.co_freevars, found.__closure__ or (), strict=True))
        if "params_buffers_flat" in cells and cells["params_buffers_flat"].cell_contents:
            return None
        metadata = cells.get("runtime_metadata")
        if metadata and metadata.cell_contents.is_rng_op_functionalized:
            return None
        if "num_tokens" in cells and cells["num_tokens"].cell_contents:
            return None
        inner = [c for n in ("fn", "compiled_fn", "_inner_compiled_fn") if (c := cells.get(n))]
        if len(inner) != 1:
            return None
        found = inner[0].cell_contents
    if found.mutated_input_idxs or found.current_callable is None:
        return None
    body = found.source_code.rpartition("def call(")[2]
    return found.current_callable, not body or any(name in body for name in _OPERATOR_PREFIXES)


def is_result_cached() -> bool:
    """Whether AOTAutograd saves what a compiler returns, and so wants it in a form of its own."""
    from torch._functorch import config

    return bool(getattr(config, "force_autograd_cache", False))  # since 2.11


def is_result_bundled() -> bool:
    """Whether it saves results whole, as it must for a compiler that is not Inductor."""
    from torch._functorch import config

    return bool(config.bundled_autograd_cache)


def results_not_cached() -> AbstractContextManager[None]:
    """A scope in which AOTAutograd neither looks for saved results nor saves any."""
    from torch._functorch import config

    patched: AbstractContextManager[None] = config.patch({"force_autograd_cache": False})
    return patched


# --- kernels: what Inductor generated ---

# What generated kernels import; its question for a driver is answered where there is none.
from torch._inductor.runtime import triton_helpers as inductor_runtime_helpers

# Whether a condition on symbols holds always, without a guard.
from torch.fx.experimental.symbolic_shapes import statically_known_true


def generated_source(artifact: Any) -> str:
    """Return the program that Inductor generated for an artifact; empty if it cannot be found."""
    found = compiled_graph(artifact)
    return "" if found is None else str(found.source_code)


def output_strides(
    artifact: Any, mode: FakeTensorMode
) -> list[tuple[int | torch.SymInt, ...] | None] | None:
    """Return the strides that Inductor gave each output of an artifact's code.

    An entry is None where the output is no tensor or a stride is not known before it runs; all is
    None if the code cannot be found.  ``CompiledFxGraph.output_strides``: 2.11 to 2.15.
    """
    found = compiled_graph(artifact)
    if found is None or found.output_strides is None:
        return None
    environment = mode.shape_env

    def number(text: Any) -> int | torch.SymInt:
        if str(text).isdigit() or environment is None:
            return int(text)
        return environment.deserialize_symexpr(text)  # type: ignore[return-value]

    return [s if s is None else tuple(map(number, s)) for s in found.output_strides]


def is_known_equal(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two numbers are equal whatever the symbols in them are; sets no guard."""
    return statically_known_true(one == other)


def compiled_graph(artifact: Any) -> Any:
    """Find what Inductor made of an artifact's graph among the wrappers around it; else None."""
    from torch._inductor.output_code import CompiledFxGraph

    pending, seen = [getattr(artifact, "inner_fn", artifact)], set[int]()
    while pending:
        found = pending.pop()
        if isinstance(found, CompiledFxGraph):
            return found
        if id(found) in seen:
            continue
        seen.add(id(found))
        cells = [c.cell_contents for c in getattr(found, "__closure__", None) or () if _filled(c)]
        inner = getattr(found, "compiled_fn", None)
        pending += [cell for cell in (*cells, inner) if callable(cell)]
    return None


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@contextmanager
def kernels_awaited_later() -> Iterator[list[Callable[[], None]]]:
    """A scope in which generated code does not wait for its kernels to be built.

    Gives the list of what waits for them; each entry must be called before the code first runs.
    What another thread compiles meanwhile is none of the scope's.
    """
    from torch._inductor.async_compile import AsyncCompile

    wait_now = AsyncCompile.wait
    waiting: list[Callable[[], None]] = []
    thread = threading.get_ident()

    def wait_later(self: AsyncCompile, scope: dict[str, Any]) -> None:
        if threading.get_ident() == thread:
            waiting.append(functools.partial(wait_now, self, scope))
        else:
            wait_now(self, scope)

    AsyncCompile.wait = wait_later  # type: ignore[method-assign]
    try:
        yield waiting
    finally:
        AsyncCompile.wait = wait_now  # type: ignore[method-assign]


def forget_generated_code() -> None:
    """Have Inductor load generated modules anew; what holds a function of one keeps it."""
    from torch._inductor.codecache import PyCodeCache

    PyCodeCache.cache_clear()


def is_named_by_chance(size: torch.SymInt, symbol: Any) -> bool:
    """Whether a symbol of ``size`` is that of a tensor that torch had no name for, 2.11 to 2.15."""
    sources = getattr(size.node.shape_env, "var_to_sources", {}).get(symbol, ())
    names = (source.name() if callable(source.name) else source.name for source in sources)
    return any("__meta_utils_unknown_tensor" in name for name in names)
