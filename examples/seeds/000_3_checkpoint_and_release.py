"""Train an epoch at a time, save, release. Usage: python 000_3_checkpoint_and_release.py [SAMPLES]

The original deletes its data after the first epoch; here each epoch loads them again.
"""

import gc
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


def load_data():
    generator = np.random.default_rng(0)
    return generator.random((samples, 64, 64, 3), np.float32), generator.integers(0, 10, samples)


model = tf.keras.models.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
optimizer = tf.keras.optimizers.Adam()
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")

checkpoint_path = str(Path(tempfile.mkdtemp()) / "checkpoint")
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)

for epoch in range(10):
    try:
        x_train, y_train = load_data()
        model.fit(x_train, y_train, batch_size=32, epochs=1)  # Train 1 epoch at a time
        checkpoint.save(checkpoint_path)
        del x_train, y_train  # Try to delete large tensors
        gc.collect()  # Forces Garbage Collection
    except tf.errors.ResourceExhaustedError:
        print("Resource Exhausted. Checkpointing and restarting.")
        break  # Stop training and restart manually, adjusting parameters if needed.
