"""ResNet50 for two steps, on whatever memory there is: prints its peak and its events, and saves its weights."""

from __future__ import annotations

import json
import sys


def main(how: str, weights: str) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    import fitroom
    from fitroom.devices import pocket
    from fitroom.steps import graph_seams
    from fitroom.training.guarding import events

    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(1)
    options = {"weights": None, "input_shape": (96, 96, 3), "classes": 10, "classifier_activation": None}
    model = keras.applications.ResNet50(**options)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3, momentum=0.9), loss, metrics=["accuracy"])
    generator = np.random.default_rng(0)
    x, y = generator.random((128, 96, 96, 3), np.float32), generator.integers(0, 10, 128)
    if how == "guarded":
        fitroom.guard(model)
    with graph_seams.calling_with(graph_seams.steady_options()):  # plain sums come out another way each time, too
        model.fit(x, y, batch_size=64, epochs=1, verbose=0, shuffle=False)
    np.savez(weights, *model.get_weights())
    told = [(event.kind, event.data.get("remedy")) for event in events(model)]
    print(json.dumps({"peak": pocket.use().peak, "events": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
