"""One sample of whatever the user has as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from fitroom.errors import UsageError
from fitroom.estimator.given import sample_of


def shapes(value: Any) -> Any:
    return tf.nest.map_structure(lambda leaf: (leaf.shape, leaf.dtype.name), value)


def test_of_arrays_the_first_is_taken_in_the_type_that_fit_would_take() -> None:
    x, y, notes = sample_of(np.ones((50, 4)), np.arange(50))
    assert shapes(x) == ((1, 4), "float32")
    assert shapes(y) == ((1,), "int64")
    assert notes == []


def test_several_inputs_are_a_tuple_and_plain_lists_are_arrays() -> None:
    x, y, _ = sample_of([np.ones((5, 4)), np.ones((5, 2), np.int32)], {"a": np.ones((5, 1))})
    assert shapes(x) == (((1, 4), "float32"), ((1, 2), "int32"))
    assert shapes(y) == {"a": ((1, 1), "float32")}
    assert shapes(sample_of([[0.0] * 8] * 4, [0, 1, 2, 0])[:2]) == (((1, 8), "float32"), ((1,), "int64"))


def test_of_ragged_tensors_the_longest_counts() -> None:
    x, _, notes = sample_of(tf.ragged.constant([[1, 2], [1, 2, 3, 4], [1]]), None)
    assert shapes(x) == ((1, 4), "int32")
    assert "(4,)" in notes[0]


def test_words_are_data_too() -> None:
    assert sample_of(tf.constant([["a"], ["bbbb"]]), None)[0].shape == (1, 1)


def unread() -> Iterator[Any]:
    raise AssertionError("this dataset tells its shapes: nobody has to read it")
    yield


def test_a_dataset_that_tells_its_shapes_is_not_read() -> None:
    specs = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int64))
    x, y, notes = sample_of(tf.data.Dataset.from_generator(unread, output_signature=specs), None)
    assert (shapes(x), shapes(y), notes) == (((1, 3), "float32"), ((1,), "int64"), [])


def endless() -> Iterator[Any]:
    lengths = [3, 9, 5]
    while True:
        lengths.append(lengths.pop(0))
        yield np.zeros((2, lengths[0], 4), np.float32)


def test_a_dataset_that_does_not_is_read_a_little() -> None:
    data = tf.data.Dataset.from_generator(endless, output_signature=tf.TensorSpec((None, None, 4)))
    x, y, notes = sample_of(data, None)
    assert (shapes(x), y) == (((1, 9, 4), "float32"), None)
    assert "first 64 batches" in notes[0]


class Numbers(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return np.zeros((4, 8), np.float32), np.zeros((4,), np.int64)


def test_of_a_pydataset_the_first_batch_is_looked_at() -> None:
    x, y, _ = sample_of(Numbers(), None)
    assert (shapes(x), shapes(y)) == (((1, 8), "float32"), ((1,), "int64"))


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (tf.data.Dataset.from_tensor_slices(np.zeros((4, 8), np.float32)), "single samples.*Try: dataset.batch"),
        (endless(), "would use up x"),
        (np.zeros((0, 8)), "cannot read x"),
        (3.0, "cannot read x"),
        (np.array([np.zeros(2), np.zeros(3)], object), "cannot read x.*RaggedTensor"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(x: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        sample_of(x, None, rank=2)
