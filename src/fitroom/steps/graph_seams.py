"""Where steps/ looks into TensorFlow's functions and their graphs. Tried on TensorFlow 2.21.0."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import auto_control_deps_utils


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


def call_flat(function: Any, tensors: list[Any]) -> Any:
    """Call a concrete function with its tensors in order: a third of the time of calling it by its signature."""
    return function.inference_fn.call_preflattened(tensors + function.captured_inputs)


def flat_tensors(values: Any) -> list[Any]:
    """The tensors in nested values, in the order in which a concrete function takes them."""
    leaves = tf.nest.flatten(values, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
