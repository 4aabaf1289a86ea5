"""A dictionary of lists, under names that other lines use, too."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512), keras.layers.Dense(10)])
optimizer = keras.optimizers.SGD(1e-3)
x = tf.random.normal((128, 64))
history = {"loss": [], "outputs": []}


def regularized(outputs, loss):
    outputs = outputs + 0.0
    loss += 1e-4 * tf.reduce_mean(outputs**2)
    return loss


for step in range(1200):
    with tf.GradientTape() as tape:
        outputs = model(x)
        loss = regularized(outputs, tf.reduce_mean(outputs**2))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    history["loss"].append(float(loss))
    history["outputs"].append(outputs)  # leak: retained_tensors
