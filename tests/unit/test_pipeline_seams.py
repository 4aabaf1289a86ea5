"""What is read of real `tf.data` pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from fitroom.data import pipeline_seams
from fitroom.data.passing import Passing
from fitroom.devices.waiting import Pipeline


def seen(data: Any, batches: int = 8) -> Pipeline | None:
    iterator = iter(data)
    for _ in range(batches):
        next(iterator)
    return pipeline_seams.look(iterator)


def double(one: Any) -> Any:
    return one * 2


def python(one: Any) -> Any:
    return tf.py_function(lambda value: value.numpy() + sum(range(20_000)), [one], tf.int64)


@pytest.fixture
def records(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{number}.rec") for number in range(4)]
    for path in paths:
        with tf.io.TFRecordWriter(path, "GZIP") as file:
            for _ in range(40):
                file.write(np.random.default_rng(0).integers(0, 9, 20_000).astype(np.float32).tobytes())
    return paths


@pytest.mark.parametrize("calls", [None, 2])
def test_all_readers_of_an_interleave_count(records: list[str], calls: int | None) -> None:
    files = tf.data.Dataset.from_tensor_slices(records)
    data = files.interleave(lambda path: tf.data.TFRecordDataset(path, "GZIP"), 4, num_parallel_calls=calls)
    found = seen(data.batch(8).prefetch(1))
    assert found is not None
    assert (found.slowest, found.workers, found.is_tuned) == ("TFRecord", calls or 1, False)
    assert found.share > 0.5


def test_python_code_in_a_map_is_seen() -> None:
    found = seen(tf.data.Dataset.range(64).map(python, num_parallel_calls=tf.data.AUTOTUNE).batch(4))
    assert found is not None
    assert (found.is_python, found.is_tuned) == (True, True)
    assert "Map" in found.slowest


def test_a_map_without_python_code_is_not_taken_for_it() -> None:
    def much(one: Any) -> Any:
        return tf.reduce_sum(tf.linalg.matmul(tf.random.uniform((160, 160)), tf.random.uniform((160, 160))))

    found = seen(tf.data.Dataset.range(64).map(much).batch(4).prefetch(1))
    assert found is not None
    assert not found.is_python


def test_what_python_code_there_is_shows_from_how_a_pipeline_is_made() -> None:
    generated = tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=tf.TensorSpec((), tf.int64))
    assert pipeline_seams.python_stages(generated.map(double).batch(3)) == {"Generator"}
    assert pipeline_seams.python_stages(tf.data.Dataset.range(9).map(python).batch(3)) == {"Map"}
    assert pipeline_seams.python_stages(tf.data.Dataset.range(9).map(double)) == set()
    assert pipeline_seams.python_stages(None) == set()


def test_who_only_passes_a_batch_on_is_not_where_batches_come_from() -> None:
    iterator = iter(tf.data.Dataset.range(64).map(double).batch(4).prefetch(1))
    first = next(iterator)
    passed = Passing(iterator, first, count=1).iterator
    assert next(passed) is not None
    found, origin = pipeline_seams.look(passed), pipeline_seams.look(iterator)
    assert found is not None
    assert origin is not None
    assert (found.slowest, found.is_python) == (origin.slowest, False)


def test_a_py_dataset_with_workers_is_python_though_tensorflow_tells_nothing() -> None:
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    class Data(keras.utils.PyDataset):  # type: ignore[misc] # Keras has no types
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return np.zeros((2, 3)), np.zeros(2)

    adapter = PyDatasetAdapter(Data(workers=2), class_weight=None)
    adapter.on_epoch_begin()
    try:
        assert seen(adapter.get_tf_dataset(), 1) == Pipeline("Generator", 0.0, 1.0, is_python=True, is_ahead=True)
    finally:
        adapter.on_epoch_end()
