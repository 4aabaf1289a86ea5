"""A generator, with a thread of its own that prepares batches in a bounded queue."""

import queue
import threading

import keras
import numpy as np
import tensorflow as tf

waiting = queue.Queue(maxsize=16)
done = threading.Event()


def work():
    while not done.is_set():
        try:
            waiting.put(np.random.rand(128, 64).astype("float32"), timeout=0.1)
        except queue.Full:
            pass


def batches():
    for _ in range(600):
        rows = waiting.get()
        yield rows, rows[:, :1]


threading.Thread(target=work, daemon=True).start()
signature = (tf.TensorSpec((128, 64)), tf.TensorSpec((128, 1)))
dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(8)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(dataset, epochs=3, verbose=0)
done.set()
