"""Where the update reaches into Keras' optimizers. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import config

from fitroom.steps.graph_seams import written_variables
from fitroom.steps.replacing import instead
from fitroom.steps.state import native

__all__ = [
    "apply_in_rows",
    "apply_in_sequence",
    "apply_then_commit",
    "can_apply_in_rows",
    "is_one_write",
    "is_separable",
    "share_reads",
    "slots",
    "tick",
    "trained_variables",
    "warn_of_missing_gradients",
    "written_variables",
]

# Their update of one variable looks at that variable, its slots and the iteration only.
_SEPARABLE = (
    "SGD", "Adam", "AdamW", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Ftrl", "Lion", "Adafactor",
)  # fmt: skip


# And of these, no element's update looks at another element.
_BY_ELEMENT = ("SGD", "Adam", "AdamW", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Ftrl", "Lion")


_NO_SLOTS = ("_trainable_variables", "_variables")


def is_separable(optimizer: Any, strategy: Any) -> bool:
    """Whether variables can be updated one by one with the same result as all at once."""
    if tf.distribute.has_strategy() or (strategy is not tf.distribute.get_strategy() and not _adds_up(optimizer)):
        return False
    kind = type(optimizer)
    return (
        kind.__name__ in _SEPARABLE
        and kind.__module__.startswith("keras.")
        and not getattr(optimizer, "centered", False)  # RMSprop's centred form rounds otherwise when taken apart
        and not optimizer.gradient_accumulation_steps
        and not optimizer.use_ema
        and not optimizer.global_clipnorm
        and not any(getattr(v, "overwrite_with_gradient", False) for v in optimizer._trainable_variables)
    )


def _adds_up(optimizer: Any) -> bool:
    """Whether nothing is done to a replica's gradients before they are added up."""
    changes = (optimizer.clipnorm, optimizer.clipvalue, optimizer.loss_scale_factor)
    return not any(changes)


def warn_of_missing_gradients(optimizer: Any, gradients: list[Any], variables: list[Any]) -> None:
    """Warn as plain Keras does of variables that have no gradient."""
    optimizer._filter_empty_gradients(gradients, variables)


def trained_variables(optimizer: Any) -> list[Any]:
    """The variables that the optimizer was built for."""
    return list(optimizer._trainable_variables)


def slots(optimizer: Any, variable: Any) -> list[Any]:
    """The optimizer's own variables for `variable`: each of its lists that runs along the trained variables."""
    index = optimizer._get_variable_index(variable)
    count = len(optimizer._trainable_variables)
    found = []
    for name, value in vars(optimizer).items():
        is_aligned = isinstance(value, list) and len(value) == count
        if is_aligned and name not in _NO_SLOTS and isinstance(value[index], keras.Variable):
            found.append(value[index])
    return found


def apply_in_sequence(optimizer: Any, gradient: Any, variable: Any, *, ticks: bool) -> None:
    """Update one variable in place, one assignment after the other, so that their temporaries are not there at once."""
    with ExitStack() as stack:

        def after(operation: Any) -> None:
            stack.enter_context(tf.control_dependencies([operation]))

        def plain(target: Any) -> Any:
            return target._value if isinstance(target, keras.Variable) else target

        def assign(target: Any, value: Any) -> None:
            target, value = plain(target), tf.cast(value, target.dtype)
            sparse = isinstance(value, tf.IndexedSlices)
            after(target.scatter_update(value) if sparse else target.assign(value, read_value=False))

        def assign_add(target: Any, value: Any) -> None:
            target, value = plain(target), tf.cast(value, target.dtype)
            sparse = isinstance(value, tf.IndexedSlices)
            after(target.scatter_add(value) if sparse else target.assign_add(value, read_value=False))

        def assign_sub(target: Any, value: Any) -> None:
            target, value = plain(target), tf.cast(value, target.dtype)
            sparse = isinstance(value, tf.IndexedSlices)
            after(target.scatter_sub(value) if sparse else target.assign_sub(value, read_value=False))

        for name, replacement in (("assign", assign), ("assign_add", assign_add), ("assign_sub", assign_sub)):
            stack.enter_context(instead(optimizer, name, replacement))
        optimizer.apply([gradient], [variable])
        if not ticks:
            optimizer._iterations.assign_sub(1)


def apply_then_commit(
    optimizer: Any, gradients: list[Any], variables: list[Any], *, ticks: bool, replica: int = 0
) -> None:
    """Compute every new value of some variables and their slots, and only then put them in place."""
    touched = [*variables, *(slot for variable in variables for slot in slots(optimizer, variable))]
    own = [native([target])[replica] for target in touched]
    known = {id(target): one.read_value() for target, one in zip(touched, own, strict=True)}
    *new, count = _computed(optimizer, gradients, variables, [*touched, optimizer._iterations], known)
    changed = [
        (one, value)
        for target, one, value in zip(touched, own, new, strict=True)
        if value is not known[id(target)]  # left alone
    ]
    with tf.control_dependencies([value for _, value in changed]):
        for one, value in changed:
            one.assign(value, read_value=False)
        for counter in native([optimizer._iterations]) if ticks else ():
            counter.assign(count, read_value=False)


def can_apply_in_rows(optimizer: Any, variable: Any, replicas: int) -> bool:
    """Whether some rows of a variable can be updated without the others, on each of so many replicas."""
    own = native([variable])
    # Deterministic, a GPU's scattered writes go through the host, all of the variable each time.
    is_slow = config.is_op_determinism_enabled() and any("GPU" in one.device for one in own)
    return (
        type(optimizer).__name__ in _BY_ELEMENT
        and isinstance(variable, keras.Variable)
        and optimizer.clipnorm is None
        and variable.constraint is None
        and len(variable.shape) > 0
        and len(own) == replicas
        and not is_slow
        and all(slot.shape == variable.shape for slot in slots(optimizer, variable))
    )


def is_one_write(optimizer: Any, variable: Any) -> bool:
    """Whether an update writes once, all that it writes."""
    return not slots(optimizer, variable) and optimizer.weight_decay is None


def apply_in_rows(optimizer: Any, gradient: Any, variable: Any, rows: Any, done: Any, replica: int = 0) -> None:
    """Update one variable in place, some rows at a time, so that temporaries are of the size of these rows.

    It begins with the row that the variable `done` tells, and counts there: called again after a failure, it goes on.
    """
    targets = [variable, *slots(optimizer, variable)]
    handles = [native([target])[replica].handle for target in targets]
    count = variable.shape[0]

    def more(start: Any) -> Any:
        return start < count

    def body(start: Any) -> Any:
        stop = tf.minimum(start + rows, count)
        places = tf.range(start, stop)
        # A gather copies; a slice of the whole value would share its buffer, and have the write copy all of it.
        now = [tf.raw_ops.ResourceGather(resource=handle, indices=places, dtype=variable.dtype) for handle in handles]
        known = dict(zip((id(target) for target in targets), now, strict=True))
        new = _computed(optimizer, [_rows_of(gradient, start, stop)], [variable], targets, known)
        with tf.control_dependencies(new):  # whatever can fail has been done when the first of them is written
            writes = [
                tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=places, updates=value)
                for handle, value in zip(handles, new, strict=True)
            ]
        with tf.control_dependencies(writes), tf.device(done.device):
            done.assign(stop, read_value=False)
        return stop

    with tf.device(done.device):
        begin = done.read_value()
    end = tf.while_loop(more, body, [begin], parallel_iterations=1)
    with tf.control_dependencies([tf.identity(end)]):
        share_reads(handles)
        with tf.device(done.device):
            done.assign(0, read_value=False)


def share_reads(handles: list[Any]) -> None:
    """Have reads of these variables share their buffers again: writing rows has made each of them a copy."""
    for handle in handles:
        tf.raw_ops.DisableCopyOnRead(resource=handle)


def tick(optimizer: Any) -> None:
    """Count an update."""
    for counter in native([optimizer._iterations]):
        counter.assign_add(tf.ones([], counter.dtype), read_value=False)


def _rows_of(gradient: Any, start: Any, stop: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient[start:stop]
    start, stop = (tf.cast(one, gradient.indices.dtype) for one in (start, stop))
    within = (gradient.indices >= start) & (gradient.indices < stop)
    values, indices = tf.boolean_mask(gradient.values, within), tf.boolean_mask(gradient.indices, within)
    shape = tf.concat([tf.cast([stop - start], tf.int32), tf.shape(gradient.values)[1:]], 0)
    return tf.IndexedSlices(values, indices - start, shape)


def _computed(
    optimizer: Any, gradients: list[Any], variables: list[Any], touched: list[Any], known: dict[int, Any]
) -> list[Any]:
    """What `apply` would make of each of `touched`; None where it leaves it alone.

    `known` has values to take instead of variables' own, by the variables' ids.
    """
    with keras.StatelessScope() as scope, ExitStack() as stack:
        scope.state_mapping.update(known)

        def current(target: Any) -> Any:
            value = scope.get_current_value(target)
            return target._value.read_value() if value is None else value

        def update(target: Any, value: Any) -> None:
            scope.add_update((target, value))

        def assign(target: Any, value: Any) -> None:
            value = tf.cast(value, target.dtype)
            if isinstance(value, tf.IndexedSlices):
                value = tf.tensor_scatter_nd_update(current(target), value.indices[:, None], value.values)
            update(target, value)

        def assign_add(target: Any, value: Any) -> None:
            value = tf.cast(value, target.dtype)
            if isinstance(value, tf.IndexedSlices):
                update(target, tf.tensor_scatter_nd_add(current(target), value.indices[:, None], value.values))
            else:
                update(target, current(target) + value)

        def assign_sub(target: Any, value: Any) -> None:
            value = tf.cast(value, target.dtype)
            if isinstance(value, tf.IndexedSlices):
                update(target, tf.tensor_scatter_nd_sub(current(target), value.indices[:, None], value.values))
            else:
                update(target, current(target) - value)

        def update_step(given: Any, targets: Any, learning_rate: Any) -> None:
            for gradient, target in zip(given, targets, strict=True):
                optimizer.update_step(gradient, target, learning_rate)

        def weight_decay(targets: Any) -> None:
            for target in targets if optimizer.weight_decay is not None else ():
                if optimizer._use_weight_decay(target):
                    rate = tf.cast(optimizer.learning_rate, target.dtype)
                    decay = tf.cast(optimizer.weight_decay, target.dtype)
                    assign_sub(target, current(target) * decay * rate)

        def key(target: Any) -> Any:
            return (target._value if isinstance(target, keras.Variable) else target)._unique_id

        for name, replacement in (
            ("assign", assign),
            ("assign_add", assign_add),
            ("assign_sub", assign_sub),
            ("_backend_update_step", update_step),
            ("_apply_weight_decay", weight_decay),
            ("_var_key", key),
        ):
            stack.enter_context(instead(optimizer, name, replacement))
        optimizer.apply(gradients, variables)
        return [scope.get_current_value(target) for target in touched]
