"""The step of a model: Keras' own, or one that somebody wrote."""

from __future__ import annotations

from typing import Any

from fitroom.steps import graph_seams, keras_seams, mixing
from fitroom.steps.keras_step import KerasStep
from fitroom.steps.own_step import OwnStep
from fitroom.steps.step import Step


def model_step(model: Any, name: str) -> Step:
    """A compiled model's `train_step` or `test_step`, to be run whole or in slices."""
    trains = name == "train_step"
    if keras_seams.uses_keras_own_step(model, name):
        return KerasStep(model, trains=trains)
    step = graph_seams.python_of(getattr(model, name))

    def on_replicas(data: Any) -> Any:
        return model.distribute_strategy.run(step, args=(data,))

    def reduced(logs: Any) -> Any:
        return keras_seams.reduce_logs(model, logs)

    return OwnStep(
        lambda data: reduced(on_replicas(data)),
        f"{type(model).__name__}.{name}",
        trains=trains,
        jit_compile=bool(model.jit_compile),
        eager=bool(model.run_eagerly),
        strategy=model.distribute_strategy,
        on_replicas=on_replicas,
        reduced=reduced,
        metrics=lambda: model.metrics,
        obstacles=lambda: mixing.obstacles(model) if trains else [],
        random_layers=lambda: mixing.random_layers(model) if trains else [],
        eager_state=lambda: keras_seams.all_variables(model),
    )
