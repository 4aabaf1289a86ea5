"""Where steps/ looks into TensorFlow's functions and their graphs. Tried on TensorFlow 2.21.0."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.distribute import values as distribute_values
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.framework import auto_control_deps_utils, func_graph
from tensorflow.python.ops import handle_data_util, resource_variable_ops
from tensorflow.python.util import tf_decorator

from fitroom.steps.replacing import replaced

_DRAWING = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
_KEPT_ATTRIBUTES = ("_XlaMustCompile", "api_implements", "api_preferred_device")


def is_function(value: Any) -> bool:
    """Whether this is a `tf.function`."""
    return isinstance(value, polymorphic_function.Function)


def python_of(function: Any) -> Any:
    """What a `tf.function` was made of, its control flow converted as it would be; anything else as it is.

    A function that has been traced keeps what it traced: to take it apart, its Python has to be traced anew.
    """
    if not is_function(function):
        return function
    python = function.python_function
    if not function._autograph:
        return python
    try:
        return tf.autograph.to_graph(python)
    except (ValueError, TypeError, NotImplementedError):  # no source to convert: a lambda, a builtin
        return python


def code_of(function: Any) -> CodeType | None:
    """The code of a function, or of what a `tf.function` was made of; None where that is no Python code."""
    _, python = tf_decorator.unwrap(function.python_function if is_function(function) else function)
    while isinstance(python, functools.partial):
        python = python.func
    return getattr(getattr(python, "__func__", python), "__code__", None)


def is_compiled_by_xla(function: Any) -> bool:
    """Whether a `tf.function` was made with jit_compile."""
    return bool(function._jit_compile)


def reads(graph: Any, variables: list[Any], after: int) -> bool:
    """Whether any operation of a graph from place `after` on takes one of these variables."""
    handles = {id(variable.handle) for variable in variables}
    inner = {id(placeholder) for external, placeholder in graph.captures if id(external) in handles}
    return any(id(tensor) in inner for operation in graph.get_operations()[after:] for tensor in operation.inputs)


def written_variables(function: Any) -> list[Any]:
    """The variables that a concrete function may write, nested functions included."""
    by_handle = {id(variable.handle): variable for variable in function.graph.variables}
    outer = {id(inner): external for external, inner in function.graph.captures}
    written = {}
    for operation in function.graph.get_operations():
        for tensor in auto_control_deps_utils.get_read_write_resource_inputs(operation)[1]:
            handle = outer.get(id(tensor))
            if handle is not None and id(handle) in by_handle:
                written[id(handle)] = by_handle[id(handle)]
    return list(written.values())


def written_from_data(function: Any) -> set[int]:
    """The ids of the variables to which a concrete function writes something that its arguments have a part in."""
    by_handle = {id(variable.handle): variable for variable in function.graph.variables}
    outer = {id(inner): external for external, inner in function.graph.captures}
    tainted = {id(one) for one in function.graph.inputs if id(one) not in outer}
    found: set[int] = set()
    for operation in function.graph.get_operations():  # in the order in which they were made: inputs come first
        if not any(id(tensor) in tainted for tensor in operation.inputs):
            continue
        tainted.update(id(tensor) for tensor in operation.outputs)
        for handle in auto_control_deps_utils.get_read_write_resource_inputs(operation)[1]:
            tainted.add(id(handle))  # what is read from it from here on comes from the data, too
            variable = by_handle.get(id(outer.get(id(handle))))
            found |= {id(variable)} if variable is not None else set()
    return found


def inner_graphs(graph: Any) -> list[Any]:
    """A function's graph, and those of all functions that it calls; a `Defun` (in `ctc_loss`) has none to look at."""
    found, waiting = {id(graph): graph}, [graph]
    while waiting:
        for inner in (getattr(function, "graph", None) for function in waiting.pop()._functions.values()):
            if inner is not None and id(inner) not in found:
                found[id(inner)] = inner
                waiting.append(inner)
    return list(found.values())


def draws(function: Any) -> bool:
    """Whether a concrete function takes batches from an iterator by itself."""
    operations = (one for graph in inner_graphs(function.graph) for one in graph.get_operations())
    return any(one.type.startswith(_DRAWING) for one in operations)


def captured(graph: Any) -> set[str]:
    """The names of the inputs of a function's graph that are not its arguments."""
    deferred = tf.nest.flatten(graph.deferred_internal_captures)
    return {one.name for one in (*(internal for _, internal in graph.captures), *deferred)}


def call_flat(function: Any, tensors: list[Any]) -> Any:
    """Call a concrete function with its tensors in order: a third of the time of calling it by its signature."""
    return function.inference_fn.call_preflattened(tensors + function.captured_inputs)


def steady_options() -> Any:
    """Options to call functions with, such that their sums come out the same each time.

    Where a graph seems to need more than 0.8 of a device (of a CPU it believes that it has 256 MiB), a pass of
    TensorFlow's has three gradients or more added up as they arrive: in another order in every graph, and in every run.
    """
    config = context.context().config
    config.graph_options.rewrite_options.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    return context.FunctionCallOptions(config_proto=config)


@contextmanager
def calling_with(options: Any) -> Iterator[None]:
    """Functions that are called for the first time are made ready with these options."""
    here = context.context()
    before, here.function_call_options = here.function_call_options, options
    try:
        yield
    finally:
        here.function_call_options = before


def flat_tensors(values: Any) -> list[Any]:
    """The tensors in nested values, in the order in which a concrete function takes them."""
    leaves = tf.nest.flatten(values, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]


def signature(tensor: Any) -> tuple[Any, ...]:
    """What a function is traced for: the tensor's type and shape, at less cost than by its properties."""
    return tensor.dtype, tensor._shape_tuple()


def per_replica(values: Any) -> Any:
    """One value for each replica."""
    return distribute_values.PerReplica(tuple(values))


def plain_variable(value: Any, device: str, name: str) -> Any:
    """A variable on one device, also inside the scope of a strategy, which would make one for every replica."""
    with tf.device(device):
        return resource_variable_ops.ResourceVariable(value, trainable=False, name=name)


def relaxed(spec: Any) -> Any | None:
    """What tensors of this kind are like whatever their first side; None for what is no tensor."""
    if isinstance(spec, distribute_values.PerReplicaSpec):
        own = [relaxed(one) for one in spec._value_specs]
        return None if None in own else distribute_values.PerReplicaSpec(*own)
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) if isinstance(spec, tf.TensorSpec) else None


@dataclass(frozen=True)
class Span:
    """The operations of a graph that one call of a tape's `gradient` made, by their places.

    Attributes:
        device: where they are, if they are one replica's of several; None elsewhere.
    """

    graph: Any
    start: int
    stop: int
    device: str | None = None


@contextmanager
def watched_gradients() -> Iterator[list[Span]]:
    """Note, while something is traced, where its ways back are."""
    plain = tf.GradientTape.gradient
    found: list[Span] = []

    def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():
            return plain(self, *args, **kwargs)
        graph = tf.compat.v1.get_default_graph()
        start = len(graph.get_operations())
        result = plain(self, *args, **kwargs)
        operations = graph.get_operations()
        context = tf.distribute.get_replica_context()
        is_one_of_several = context is not None and context.num_replicas_in_sync > 1 and start < len(operations)
        found.append(Span(graph, start, len(operations), operations[start].device if is_one_of_several else None))
        return result

    with replaced([(tf.GradientTape, "gradient", gradient)]):
        yield found


def changed_function(function: Any, definition: Any, also_run: list[str]) -> Any:
    """The concrete function with another graph: `definition` has its inputs and outputs by their names, and more."""
    old = function.graph
    new = func_graph.FuncGraph(f"{old.name}_changed")
    given = {tensor.op.name for tensor in old.inputs}
    rest = type(definition)()
    rest.CopyFrom(definition)
    del rest.node[:]
    rest.node.extend(node for node in definition.node if node.name not in given)
    with new.as_default():
        inputs = []
        for place, tensor in enumerate(old.inputs):
            # A name with slashes would take the names of the operations before the slash.
            stand_in = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, name=f"fitroom_input_{place}")
            handle_data_util.copy_handle_data(tensor, stand_in)  # a variable's shape
            inputs.append(stand_in)
        named = {tensor.name: stand_in for tensor, stand_in in zip(old.inputs, inputs, strict=True)}
        used = {name.partition(":")[0] for node in rest.node for name in node.input}
        mapped = {name: stand_in for name, stand_in in named.items() if name.partition(":")[0] in used}
        tf.graph_util.import_graph_def(rest, input_map=mapped, name="")
    new.outputs = [named[one.name] if one.name in named else new.get_tensor_by_name(one.name) for one in old.outputs]
    run = [*(one.name for one in old.control_outputs), *also_run]
    new.control_outputs = [new.get_operation_by_name(name) for name in run]
    for external, internal in old.captures:
        new.add_capture(external, named[internal.name])
    deferred = old._function_captures  # given anew with each call: what tells replicas' exchanges apart
    for key, inside in deferred.by_ref_internal.items():
        stand_ins = tf.nest.map_structure(lambda one: named[one.name], inside)
        outside, kind = deferred.by_ref_external[key], deferred.by_ref_tracetype[key]
        new._function_captures.add_or_replace(key, outside, stand_ins, tracetype=kind, is_by_ref=True)
    new.inputs = inputs  # captures among them, where they were
    new.variables = old.variables
    new.structured_outputs, new.structured_input_signature = old.structured_outputs, old.structured_input_signature
    attributes = {name: value for name, value in function.function_def.attr.items() if name in _KEPT_ATTRIBUTES}
    return concrete_function.ConcreteFunction.from_func_graph(new, function.function_type, attributes)
