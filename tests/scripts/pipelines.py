"""Pipelines that are slow on purpose, each in its own way, and one that is not: what a training waits for is known.

As a script it trains with each, and prints what `MemoryMonitor` says it waited for.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE, BATCH = 64, 16
_SAMPLE = SIDE * SIDE * 3


def model(width: int = 8) -> Any:
    net = keras.Sequential([keras.Input((SIDE, SIDE, 3)), layers.Conv2D(width, 3, activation="relu")])
    net.add(layers.Conv2D(width, 3, activation="relu"))
    net.add(layers.GlobalAveragePooling2D())
    net.add(layers.Dense(10))
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net


def _samples(batches: int) -> Any:
    images = tf.data.Dataset.from_tensors(tf.zeros((SIDE, SIDE, 3))).repeat(batches * BATCH)
    return images.map(lambda image: (image, 0))


def _work(image: Any, times: int) -> Any:
    """Something random that a core has to do: TensorFlow leaves that where it was put."""
    noise = tf.random.uniform((160, 160))
    for _ in range(times):
        noise = tf.linalg.matmul(noise, noise) / 160.0
    return image + 1e-9 * noise[0, 0]


def slow_map(batches: int, folder: Path) -> Any:
    """Each sample is worked on for long, one after the other."""
    data = tf.data.Dataset.from_tensors(tf.zeros((SIDE, SIDE, 3))).repeat(batches * BATCH)
    return data.map(lambda image: (_work(image, 96), 0)).batch(BATCH).prefetch(2)


def no_prefetch(batches: int, folder: Path) -> Any:
    """Making a batch takes about as long as a step, and happens after it instead of beside it."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # newer TensorFlow adds one by itself, where it can
    data = _samples(batches).batch(BATCH).map(lambda images, labels: (_work(images, 240), labels))
    return data.with_options(options)


class OneWorker(keras.utils.PyDataset):  # type: ignore[misc] # Keras has no types
    """Python code makes each batch, in one thread."""

    def __init__(self, batches: int) -> None:
        super().__init__(workers=1)
        self.batches = batches

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        total, until = 0, time.thread_time() + 0.06
        while time.thread_time() < until:
            total += sum(range(1000))
        return np.full((BATCH, SIDE, SIDE, 3), total % 2, np.float32), np.zeros(BATCH, np.int64)


def one_worker(batches: int, folder: Path) -> Any:
    return OneWorker(batches)


def disk(batches: int, folder: Path) -> Any:
    """Each batch is gathered from all over a file, past the page cache."""
    path, size, piece = folder / "samples.bin", 128 << 20, 64 << 10
    if not path.exists():
        path.write_bytes(os.urandom(1 << 20) * (size >> 20))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.fsync(descriptor)
    places, room = np.random.default_rng(0), mmap.mmap(-1, piece)  # such a read needs memory of whole pages

    def read(number: Any) -> Any:
        for at in places.integers(0, size // piece, 250):
            os.preadv(descriptor, [room], int(at) * piece)
        image = np.frombuffer(room, np.uint8, _SAMPLE).reshape(1, SIDE, SIDE, 3)
        return np.repeat(image.astype(np.float32), BATCH, axis=0)

    def batch(number: Any) -> Any:
        images = tf.numpy_function(read, [number], tf.float32)
        return tf.ensure_shape(images, (BATCH, SIDE, SIDE, 3)), tf.zeros(BATCH, tf.int64)

    return tf.data.Dataset.range(batches).map(batch).prefetch(2)


def python_map(batches: int, folder: Path) -> Any:
    """Python code in a map that runs in parallel, which Python does not."""

    def slow(image: Any) -> Any:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            sum(range(1000))
        return image

    def sample(image: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(slow, [image], tf.float32), (SIDE, SIDE, 3)), 0

    data = tf.data.Dataset.from_tensors(tf.zeros((SIDE, SIDE, 3))).repeat(batches * BATCH)
    return data.map(sample, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(2)


def reading(batches: int, folder: Path) -> Any:
    """Records are unpacked from four files in turn, one at a time."""
    paths = [str(folder / f"{number}.records") for number in range(4)]
    for path in paths:
        with tf.io.TFRecordWriter(path, "GZIP") as file:
            record = np.random.default_rng(0).integers(0, 9, _SAMPLE * 30).astype(np.float32).tobytes()
            for _ in range(batches * BATCH // 4):
                file.write(record)

    def sample(record: Any) -> Any:
        return tf.reshape(tf.io.decode_raw(record, tf.float32)[:_SAMPLE], (SIDE, SIDE, 3)), 0

    files = tf.data.Dataset.from_tensor_slices(paths)
    data = files.interleave(lambda path: tf.data.TFRecordDataset(path, "GZIP"), cycle_length=4)
    return data.map(sample, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(2)


def fast(batches: int, folder: Path) -> Any:
    """Batches are there before they are asked for: the step is what takes time."""
    return _samples(batches).batch(BATCH).prefetch(2)


PIPELINES: dict[str, Callable[[int, Path], Any]] = {
    "map": slow_map,
    "no prefetch": no_prefetch,
    "one worker": one_worker,
    "disk": disk,
    "one worker, in a map": python_map,
    "reading": reading,
    "nothing": fast,
}


def waited_for(name: str, folder: Path, *, guarded: bool) -> str:
    """What a training on one of them waited for, by the monitor's word."""
    import fitroom
    from fitroom.callbacks import MemoryMonitor

    net = model(32 if name in ("nothing", "no prefetch") else 8)  # small steps for those that wait
    if guarded:
        fitroom.guard(net)
    monitor = MemoryMonitor(every=0.2, verbose=0)
    try:
        net.fit(PIPELINES[name](20, folder), verbose=0, shuffle=False, callbacks=[monitor])
    except OSError:
        return "unreadable"  # no file system here that reads past the page cache
    assert monitor.monitor is not None
    found = monitor.monitor.waits_for
    print(name, found, file=sys.stderr)
    return "nothing" if found is None else found.what


if __name__ == "__main__":
    print(json.dumps({name: waited_for(name, Path(), guarded=sys.argv[1] == "guarded") for name in PIPELINES}))
