"""A dataset held in memory and iterated, without a training. Usage: python 004_3_tf_data_prefetch.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
data = np.random.rand(samples, 64, 64).astype(np.float32)
batch_size = 32

dataset = tf.data.Dataset.from_tensor_slices(data)  # Assume data is your numpy array
dataset = dataset.batch(batch_size).prefetch(buffer_size=tf.data.AUTOTUNE)

for batch in dataset:
    # Process the batch. The prefetch helps overlap data loading with computation
    pass
