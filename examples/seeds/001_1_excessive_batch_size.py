"""A hand-written step with too large a batch. Usage: python 001_1_excessive_batch_size.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf


def create_simple_cnn():
    model = tf.keras.models.Sequential([
        tf.keras.layers.Conv2D(32, (3, 3), activation="relu", input_shape=(28, 28, 3)),
        tf.keras.layers.MaxPooling2D((2, 2)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])
    return model


# Generate some dummy image data (for demonstration only)
def generate_dummy_data(num_samples, batch_size):
    images = np.random.rand(num_samples, 28, 28, 3).astype(np.float32)
    labels = np.random.randint(0, 10, size=num_samples).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)
    return dataset


model = create_simple_cnn()

optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()


# Define train step
@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images)
        loss = loss_fn(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


num_samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
batch_size = 256  # This could be excessive for smaller GPUs
train_dataset = generate_dummy_data(num_samples, batch_size)

try:
    for images, labels in train_dataset:
        train_step(images, labels)
except tf.errors.ResourceExhaustedError as e:
    print(f"Caught ResourceExhaustedError: {e}")
