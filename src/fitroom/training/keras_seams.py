"""Where training/ reaches into Keras. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fitroom.data.passing import Passing
from fitroom.steps import graph_seams
from fitroom.steps.keras_seams import check as check_steps

_MARK = "_fitroom"


def check(model: Any) -> str | None:
    """Why this model cannot be guarded here; None where it can."""
    import keras

    if keras.config.backend() != "tensorflow":
        return f"the Keras backend is {keras.config.backend()}"
    if not isinstance(model, keras.Model):
        return f"{type(model).__name__} is not a Keras 3 model"
    missing = check_steps()
    if missing:
        return f"Keras {keras.__version__} no longer has {missing}"
    return None


def hook(model: Any, guard: Any, **methods: Callable[..., Any]) -> None:
    """Put `methods` on the model itself, past Keras' tracking: nothing of it is saved, cloned or pickled."""
    model.__dict__[_MARK] = guard
    model.__dict__.update(methods)
    _forget_functions(model)


def unhook(model: Any, names: tuple[str, ...]) -> None:
    """Take them off again."""
    for name in (_MARK, *names):
        model.__dict__.pop(name, None)
    _forget_functions(model)


def _forget_functions(model: Any) -> None:
    for name in ("train_function", "test_function", "predict_function"):
        model.__dict__[name] = None


def hooked(model: Any) -> Any | None:
    """The guard that is on the model."""
    return getattr(model, "__dict__", {}).get(_MARK)


def plain_function(model: Any, name: str) -> Callable[[Any], Any]:
    """The function of this name that plain Keras would make."""
    setattr(model, name, None)
    getattr(type(model), f"make_{name}")(model)
    function: Callable[[Any], Any] = getattr(model, name)
    return function


def has_strategy(model: Any) -> bool:
    """Whether a model runs under a distribution strategy."""
    return model._distribute_strategy is not None


def replicas(model: Any) -> int:
    """On how many devices a model trains."""
    return int(model.distribute_strategy.num_replicas_in_sync)


def devices(model: Any) -> tuple[str, ...]:
    """The devices that a model trains on, where a strategy tells."""
    import tensorflow as tf

    strategy = model.distribute_strategy
    is_told = isinstance(strategy, (tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy))
    return tuple(strategy.extended.worker_devices) if is_told else ()


def is_synchronous(model: Any) -> bool:
    """Whether every step of a model's training is one step of this process: on one device, or on replicas of it."""
    import tensorflow as tf

    known = (tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy)
    return not has_strategy(model) or type(model.distribute_strategy) in known


def build_optimizer(model: Any) -> None:
    """Have a model's optimizer make its variables, as its first update would."""
    optimizer = getattr(model, "optimizer", None)
    if model.built and optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)


def begin_with(model: Any, epoch: int) -> Any:
    """A callback that has `fit` begin with this epoch, whatever other callbacks want."""
    import keras

    class Begin(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
        def on_train_begin(self, logs: Any = None) -> None:
            model._initial_epoch = epoch

    return Begin()


def first_epoch(model: Any) -> int | None:
    """The epoch with which a callback has had `fit` begin; None where none has."""
    found: int | None = model._initial_epoch
    return found


def forget_fit(model: Any) -> None:
    """After it: have the next `fit` begin where it is told to, with a validation of its own."""
    model._initial_epoch = model._eval_epoch_iterator = None


def without_optionals(data: Any) -> Any:
    """The data of a batch, with absent parts as None."""
    import tensorflow as tf

    def present(leaf: Any) -> Any:
        if not isinstance(leaf, tf.experimental.Optional):
            return leaf
        return leaf.get_value() if leaf.has_value() else None

    return tf.nest.map_structure(present, data)


def let_outputs_be_arrays() -> None:
    """Have Keras' `predict` take arrays as a model's outputs, too: as tensors it would join them on the device."""
    import numpy as np
    import tensorflow as tf
    from keras.src.backend.tensorflow import trainer

    concat, convert = trainer.potentially_ragged_concat, trainer.convert_to_np_if_not_ragged
    if hasattr(concat, "takes_arrays"):
        return

    def potentially_ragged_concat(outputs: list[Any]) -> Any:
        are_arrays = all(isinstance(one, np.ndarray) for one in outputs)
        if are_arrays and len({one.shape[1:] for one in outputs}) == 1 and outputs[0].ndim:
            return np.concatenate(outputs)
        return concat([tf.convert_to_tensor(one) if isinstance(one, np.ndarray) else one for one in outputs])

    def convert_to_np_if_not_ragged(output: Any) -> Any:
        return output if isinstance(output, np.ndarray) else convert(output)

    potentially_ragged_concat.takes_arrays = True  # type: ignore[attr-defined] # a mark on a function
    trainer.potentially_ragged_concat = potentially_ragged_concat
    trainer.convert_to_np_if_not_ragged = convert_to_np_if_not_ragged


_guarded_steps = 0  # under way: what they call is guarded by them


@contextmanager
def guarded_step() -> Iterator[None]:
    """While a guarded step runs, the calls of models in it are its own affair."""
    global _guarded_steps
    _guarded_steps += 1
    try:
        yield
    finally:
        _guarded_steps -= 1


def is_recorded_eagerly() -> bool:
    """Whether a tape records what is computed now, line by line, outside of any guarded step."""
    import tensorflow as tf
    from tensorflow.python.eager import record

    return not _guarded_steps and tf.executing_eagerly() and bool(record.could_possibly_record())


def unrecorded() -> Any:
    """A context in which no tape records."""
    from tensorflow.python.eager import record

    return record.stop_recording()


def bytes_of_outputs(model: Any) -> int | None:
    """What all outputs of a model's layers take for one sample; None where the model does not tell."""
    import keras
    import numpy as np

    if isinstance(model, keras.Sequential):
        model = model._functional
    operations = getattr(model, "_operations", None)
    if not isinstance(model, keras.Model) or operations is None:
        return None
    total = 0
    for operation in operations:
        if isinstance(operation, keras.Model):
            return None
        for tensor in keras.tree.flatten(operation.output):
            if any(size is None for size in tensor.shape[1:]):
                return None
            total += int(np.prod(tensor.shape[1:])) * max(
                4, keras.backend.standardize_dtype(tensor.dtype).count("64") * 8
            )
    return total


@functools.cache
def _drawing() -> Any:
    """Draws a batch for all replicas in one call: piece by piece, that takes as long as a small step."""
    import tensorflow as tf

    return tf.function(lambda iterator: iterator.get_next(), autograph=False)


class Batches:
    """The batches of an iterator, one by one, with absent parts as None; `StopIteration` at the end of the data.

    Asks TensorFlow's own iterators directly: their Python side costs a third of what a small step takes. Does not keep
    the iterator alive: with it go its threads and buffers, and when they go is up to Keras.

    Attributes:
        like: what the batches are like, as plain Keras would trace for them; None where the iterator does not tell.
    """

    def __init__(self, iterator: Any) -> None:
        import tensorflow as tf

        self._source = weakref.ref(iterator)
        self.like = getattr(iterator, "element_spec", None)
        specs = tf.nest.flatten(self.like) if self.like is not None else []
        self._is_tensorflows = (
            getattr(iterator, "_iterator_resource", None) is not None
            and bool(specs)
            and all(type(spec) is tf.TensorSpec for spec in specs)
        )
        self._types = [getattr(spec, "dtype", None) for spec in specs]
        self._shapes = [getattr(spec, "shape", None) for spec in specs]
        self._get_next = tf.raw_ops.IteratorGetNext
        is_distributed = isinstance(iterator, tf.distribute.DistributedIterator)
        self._draw = _drawing().get_concrete_function(iterator) if is_distributed else None

    def are_of(self, iterator: Any) -> bool:
        """Whether they are this iterator's."""
        return self._source() is iterator

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        import tensorflow as tf

        iterator = self._source()
        if iterator is None:
            raise StopIteration
        if self._is_tensorflows:
            resource = iterator._iterator_resource
            try:
                flat = self._get_next(iterator=resource, output_types=self._types, output_shapes=self._shapes)
            except tf.errors.OutOfRangeError:
                raise StopIteration from None
            return tf.nest.pack_sequence_as(self.like, flat)
        if self._draw is not None:
            try:
                return graph_seams.call_flat(self._draw, graph_seams.flat_tensors(iterator))
            except tf.errors.OutOfRangeError:
                raise StopIteration from None
        data = next(iterator)
        return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data)

    def again(self, taken: list[Any]) -> Any:
        """An iterator over batches that were taken."""
        return Passing(self._source(), *taken, count=len(taken)).iterator
