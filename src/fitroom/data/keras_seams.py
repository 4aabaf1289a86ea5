"""Where data/ reaches into Keras and TensorFlow. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from tensorflow.python.data.util import random_seed
from tensorflow.python.eager import context

_PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}  # operations that call it
# Datasets that begin anew with every iterator, whether or not anything was taken from the last one.
_ANEW = {
    f"_{name}Dataset"
    for name in (
        "Tensor", "TensorSlice", "Range", "Batch", "ParallelBatch", "Shuffle", "Prefetch", "Zip", "Take", "Skip",
        "Options", "Map", "ParallelMap",
    )
}  # fmt: skip

Steps = Iterator[tuple[int, int, Any]]  # a step's first and last number, and where its batches come from


class Follower(Protocol):
    """Goes along when Keras goes through data."""

    def steps(self, plain: Callable[[], Steps]) -> Steps:
        """The steps of an epoch; `plain` begins one as Keras does."""


class Order(Protocol):
    """Decides the order of arrays that Keras shuffles, where no seed does."""

    def shuffle(self, value: Any) -> Any:
        """Stands in for `tf.random.shuffle`."""

    def begin(self, epoch: int) -> None:
        """Before an epoch."""


def follow(begin: Callable[[Any], Follower | None], order: Callable[[], Order | None]) -> None:
    """Have every iterator over epochs that Keras makes from now on ask who follows it."""

    class Followed(trainer.TFEpochIterator):  # type: ignore[misc] # Keras has no types
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.order = order() if kwargs.get("shuffle") and context.global_seed() is None else None
            with _shuffling(self.order):
                super().__init__(*args, **kwargs)
            self.epochs = itertools.count()
            self.follower = begin(self)

        def _enumerate_iterator(self) -> Steps:
            return self.plain() if self.follower is None else self.follower.steps(self.plain)

        def plain(self) -> Steps:
            if self.order is not None:
                self.order.begin(next(self.epochs))
            yield from super()._enumerate_iterator()

    trainer.TFEpochIterator = Followed


@contextmanager
def _shuffling(order: Order | None) -> Iterator[None]:
    plain = tf.random.shuffle
    if order is not None:
        tf.random.shuffle = order.shuffle
    try:
        yield
    finally:
        tf.random.shuffle = plain


def calls_python(iterator: Any) -> bool:
    """Whether what an epoch iterator goes through runs Python code, which may keep a state of its own."""
    adapter = iterator.data_adapter
    if isinstance(adapter, ArrayDataAdapter):
        return False
    if not isinstance(adapter, TFDatasetAdapter):
        return True
    return any(_functions_call_python(dataset) for dataset in _with_inputs(adapter.get_tf_dataset()))


def _with_inputs(dataset: Any) -> Iterator[Any]:
    yield dataset
    for one in dataset._inputs():
        yield from _with_inputs(one)


def _functions_call_python(dataset: Any) -> bool:
    for function in dataset._functions():
        graph = function.function.graph.as_graph_def()
        nodes = itertools.chain(graph.node, *(one.node_def for one in graph.library.function))
        if any(node.op in _PYTHON for node in nodes):
            return True
    return False


def can_jump(iterator: Any) -> bool:
    """Whether each epoch begins anew and has a known length: then an epoch can be left out without a look at it."""
    adapter = iterator.data_adapter
    if iterator.steps_per_epoch is not None or adapter.num_batches is None:
        return False
    if not isinstance(adapter, TFDatasetAdapter):
        return isinstance(adapter, ArrayDataAdapter)
    datasets = list(_with_inputs(adapter.get_tf_dataset()))
    return all(type(one).__name__ in _ANEW and not _functions_keep_state(one) for one in datasets)


def _functions_keep_state(dataset: Any) -> bool:
    """Whether a dataset's functions use variables, such as a Keras layer's seed."""
    inputs = [one for function in dataset._functions() for one, _ in function.function.graph.captures]
    return any(one.dtype == tf.resource for one in inputs)


def batches_per_epoch(iterator: Any) -> int | None:
    """How many batches an epoch has; None where that is not known beforehand."""
    found = iterator.steps_per_epoch or iterator.data_adapter.num_batches
    return None if found is None else int(found)


def may_end_early(iterator: Any) -> bool:
    """Whether only the next batch shows if there is one."""
    return iterator.data_adapter.num_batches is None


@contextmanager
def ending_quietly(iterator: Any) -> Iterator[None]:
    """What Keras does where data ends, but for its warning, which was given before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with iterator.catch_stop_iteration():
            yield


def validation(model: Any, arguments: dict[str, Any], epoch: int) -> Any | None:
    """The epoch iterator of the validation after an epoch of `fit`, as `fit` would make it; None without one.

    Data that are split off arrays are left out: nothing is left behind by going through them.
    """
    data = arguments["validation_data"]
    if data is None or not model._should_eval(epoch, arguments["validation_freq"]):
        return None
    if getattr(model, "_eval_epoch_iterator", None) is None:
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        model._eval_epoch_iterator = trainer.TFEpochIterator(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
            distribute_strategy=model.distribute_strategy,
            steps_per_execution=model.steps_per_execution,
            steps_per_epoch=arguments["validation_steps"],
            shuffle=False,
        )
    return model._eval_epoch_iterator


def seed_datasets(next_seed: Callable[[], int | None]) -> None:
    """Give operations on datasets that have no seed one of ours; with it they are as random as before.

    Not within a function, where one operation is many: they would all give the same.
    """
    plain = random_seed.get_seed

    def get_seed(seed: Any) -> Any:
        is_free = seed is None and tf.executing_eagerly() and context.global_seed() is None
        return plain(next_seed() if is_free else seed)

    random_seed.get_seed = get_seed
