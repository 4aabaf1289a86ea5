"""The second example of a recipe about leaks: what a step returns is freed when it is dropped."""

import numpy as np
import tensorflow as tf


def create_leaky_model():
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(100, activation="relu", input_shape=(10,)),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    return model


# Dummy training data
def generate_dummy_data(num_samples, batch_size):
    inputs = np.random.rand(num_samples, 10).astype(np.float32)
    labels = np.random.randint(0, 10, size=num_samples).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(batch_size)
    return dataset


model = create_leaky_model()

optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()


# Demonstrating a leaky operation within training (note: deliberately not cleaning up the intermediate 'activations')
@tf.function
def leaky_train_step(inputs, labels):
    with tf.GradientTape() as tape:
        activations = model(inputs)
        loss = loss_fn(labels, activations)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return activations  # <-- 'activations' tensor is returned, not explicitly deallocated


num_samples = 1000
batch_size = 32
train_dataset = generate_dummy_data(num_samples, batch_size)

try:
    for inputs, labels in train_dataset.repeat(20):
        leaky_train_step(inputs, labels)
except tf.errors.ResourceExhaustedError as e:
    print(f"Caught ResourceExhaustedError: {e}")
