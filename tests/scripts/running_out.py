"""Trainings that run out, each for another cause: ``python running_out.py CAUSE``, on the pocket device.

What they write to standard output and error is a log as users have it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf


def batch_or_activations() -> None:
    """Too large a batch for the activations of a small CNN."""
    layers = [keras.layers.Conv2D(32, 3, activation="relu", padding="same") for _ in range(4)]
    model = keras.Sequential([keras.Input((64, 64, 3)), *layers, keras.layers.GlobalAveragePooling2D()])
    model.compile("adam", "mse")
    model.fit(np.zeros((256, 64, 64, 3), "float32"), np.zeros((256, 32), "float32"), batch_size=128, verbose=2)


def giant_dense() -> None:
    """A Dense layer on a flattened image: its kernel alone is larger than the device."""
    model = keras.Sequential([keras.Input((256, 256, 3)), keras.layers.Flatten(), keras.layers.Dense(1024)])
    model.compile("adam", "mse")
    model.fit(np.zeros((2, 256, 256, 3), "float32"), np.zeros((2, 1024), "float32"), verbose=2)


def huge_embedding() -> None:
    """An embedding that fits, and an optimizer whose slots do not."""
    model = keras.Sequential([keras.Input((8,)), keras.layers.Embedding(1_000_000, 64), keras.layers.Flatten()])
    model.compile("adam", "mse")
    model.fit(np.zeros((2, 8), "int32"), np.zeros((2, 512), "float32"), verbose=2)


def leak() -> None:
    """Every step's output is kept."""
    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(8192)])
    kept = []
    for epoch in range(1000):
        print(f"Epoch {epoch + 1}/1000", flush=True)
        kept.append(model(tf.zeros([128, 1024])))


def fragmentation() -> None:
    """Gaps between tensors that stay: enough is free, but nowhere in one piece."""
    small = [tf.zeros([4 << 18]) for _ in range(60)]
    del small[::2]
    tf.zeros([40 << 18])


def host_dataset() -> None:
    """An array that no host can hold."""
    np.zeros((4_000_000, 224, 224, 3), "float64")


def proto_embedded_data() -> None:
    """An array that becomes a constant of a graph."""
    with tf.Graph().as_default():
        tf.constant(np.broadcast_to(np.float32(1), (1 << 29,)))


def disk_full() -> None:
    """A file on a disk that is always full."""
    with tf.io.TFRecordWriter("/dev/full") as writer:
        writer.write(b"x" * 10_000_000)


def fd_limit() -> None:
    """As many open files as the process may have."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = [Path("/dev/null").open() for _ in range(100)]  # noqa: SIM115
    print(len(kept))


def inference_too_large() -> None:
    """All samples at once through a layer: a product of matrices, because convolutions may crash without memory."""
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Dense(64, activation="relu")])
    model.predict(np.zeros((2000, 32, 32, 3), "float32"), batch_size=2000, verbose=0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
