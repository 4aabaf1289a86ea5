"""Another optimizer in the place of one that keeps much, with what can be carried over."""

from __future__ import annotations

from typing import Any

import keras

from fitroom.errors import UsageError
from fitroom.steps import keras_seams

_KEPT = (
    *("weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum"),
    *("ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps"),
)
# Rules of thumb. Adafactor scales its rate with each weight's size (a tenth or less, mostly); Lion's steps are all of
# one size, and its authors take 3 to 10 times less and decay as much more; SGD's are as large as the gradient.
_RATES = {"adafactor": 10.0, "lion": 0.2, "sgd": 10.0}
_LION_DECAY = 5.0
_RATE_KEYS = ("initial_learning_rate", "end_learning_rate", "warmup_target", "values")


def leaner(optimizer: Any, kind: str) -> tuple[Any, str]:
    """An optimizer of this kind instead, not built, and what was carried over, in words.

    Raises:
        UsageError: if the optimizer keeps no more than that, or its schedule cannot be scaled.
    """
    if type(optimizer).__name__ not in ("Adam", "AdamW", "Nadam", "Adamax", "Ftrl", "RMSprop", "Adadelta", "Adagrad"):
        raise UsageError(
            "This optimizer has nothing to gain from a leaner one",
            received=type(optimizer).__name__ if optimizer is not None else "a model without an optimizer",
            expected="Adam or one of its relatives",
        )
    schedule = keras_seams.schedule_of(optimizer)
    rate = _scaled(schedule, _RATES[kind]) if schedule is not None else float(optimizer.learning_rate) * _RATES[kind]
    config = optimizer.get_config()
    options = {name: config[name] for name in _KEPT if config.get(name) is not None}
    shown = "schedule" if schedule is not None else f"{float(optimizer.learning_rate):g}"
    said = [f"the learning rate {shown} times {_RATES[kind]:g}"]
    if kind == "adafactor":
        found = keras.optimizers.Adafactor(rate, relative_step=False, **options)
    elif kind == "lion":
        if options.get("weight_decay"):
            options["weight_decay"] *= _LION_DECAY
            said.append(f"weight decay times {_LION_DECAY:g}")
        found = keras.optimizers.Lion(rate, **options)
    else:
        momentum = config.get("beta_1") or config.get("momentum") or 0.9
        nesterov = type(optimizer).__name__ == "Nadam"
        found = keras.optimizers.SGD(rate, momentum=momentum, nesterov=nesterov, **options)
        said.append(f"momentum {momentum:g}")
    return found, f"{type(found).__name__} instead of {type(optimizer).__name__}, with {', '.join(said)}"


def _scaled(schedule: Any, factor: float) -> Any:
    """A schedule of Keras' own, times a factor.

    Raises:
        UsageError: if it is somebody's own.
    """
    is_keras = type(schedule).__module__.startswith("keras.")
    config = schedule.get_config() if is_keras else {}
    known = [key for key in _RATE_KEYS if config.get(key) is not None]
    if not known:
        raise UsageError(
            "The schedule of the learning rate is not one of Keras' own, and cannot be carried over",
            received=type(schedule).__name__,
        )
    for key in known:
        value = config[key]
        config[key] = [one * factor for one in value] if isinstance(value, list | tuple) else value * factor
    return type(schedule).from_config(config)
