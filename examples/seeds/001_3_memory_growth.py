"""A larger CNN with memory growth set. Usage: python 001_3_memory_growth.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf


def create_complex_cnn():
    model = tf.keras.models.Sequential([
        tf.keras.layers.Conv2D(64, (3, 3), activation="relu", input_shape=(64, 64, 3)),
        tf.keras.layers.MaxPooling2D((2, 2)),
        tf.keras.layers.Conv2D(128, (3, 3), activation="relu"),
        tf.keras.layers.MaxPooling2D((2, 2)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])
    return model


def generate_dummy_data(num_samples, batch_size):
    images = np.random.rand(num_samples, 64, 64, 3).astype(np.float32)
    labels = np.random.randint(0, 10, size=num_samples).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)
    return dataset


# Create complex CNN model
model = create_complex_cnn()

optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images)
        loss = loss_fn(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


num_samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
batch_size = 64  # Batch size set deliberately high

# Enable memory growth to use only necessary GPU memory
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as e:
        print(e)

train_dataset = generate_dummy_data(num_samples, batch_size)

try:
    for images, labels in train_dataset:
        train_step(images, labels)
except tf.errors.ResourceExhaustedError as e:
    print(f"Caught ResourceExhaustedError: {e}")
