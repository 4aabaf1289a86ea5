"""A large embedding before an LSTM. Usage: python 003_3_large_embedding.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf

# Define Vocab size, Sequence Length, Embedding Dim
vocab_size = 20000  # large vocabulary
sequence_length = 128
embedding_dim = 256

# Generate random training data
num_samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
input_data = np.random.randint(0, vocab_size, size=(num_samples, sequence_length))
labels = np.random.randint(0, 2, num_samples)

dataset = tf.data.Dataset.from_tensor_slices((input_data, labels)).batch(32)

# Create a simple sequence processing model
model = tf.keras.Sequential([
    tf.keras.layers.Embedding(vocab_size, embedding_dim, input_length=sequence_length),
    tf.keras.layers.LSTM(64),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])

# Compile model
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

# Attempt to train model
try:
    model.fit(dataset, epochs=5)
except tf.errors.ResourceExhaustedError as e:
    print(f"Encountered Resource Exhausted Error: {e}")
