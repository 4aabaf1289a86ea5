"""A built, compiled model turned over, and back: XLA, precision, optimizer.

Comes in: a model and settings. Goes out: what was changed, in words, each with the way back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from fitroom.errors import UsageError
from fitroom.steps import keras_seams
from fitroom.steps.leaner import leaner


class Turn(NamedTuple):
    """One thing that was changed.

    Attributes:
        what: the setting's name.
        words: what is otherwise now.
        exact: whether it keeps the math.
        back: undoes it, where it still holds.
        holds: whether the model still is as it was turned: a new compilation is the user's.
    """

    what: str
    words: str
    exact: bool
    back: Callable[[], None]
    holds: Callable[[], bool]


def turn(
    model: Any, *, xla: str | None = None, precision: str | None = None, optimizer: str | None = None
) -> list[Turn]:
    """Turn a compiled model over; nothing is traced or built for it.

    Args:
        model: compiled.
        xla: ``on`` or ``off``.
        precision: the type that layers compute in, ``float16`` or ``bfloat16``.
        optimizer: the kind of optimizer in the place of its own: ``adafactor``, ``lion`` or ``sgd``.

    Raises:
        UsageError: if the model cannot be turned over; then it is as it was.
    """
    done: list[Turn | None] = []
    try:
        done.append(_xla(model, xla == "on") if xla is not None else None)
        # The optimizer first: a loss scale goes around it.
        done.append(_optimizer(model, optimizer) if optimizer is not None else None)
        done.append(_precision(model, precision) if precision is not None else None)
    except BaseException:
        turn_back([one for one in done if one is not None])
        raise
    return [one for one in done if one is not None]


def turn_back(turns: list[Turn]) -> None:
    """Have a model be as it was."""
    for one in reversed(turns):
        if one.holds():
            one.back()


def _xla(model: Any, after: bool) -> Turn | None:
    before = bool(model.jit_compile)
    if before == after:
        return None
    model.jit_compile = after
    words = "steps are compiled by XLA" if after else "steps are no longer compiled by XLA"
    back = functools.partial(setattr, model, "jit_compile", before)
    return Turn("xla", words, True, back, lambda: bool(model.jit_compile) == after)


def _optimizer(model: Any, setting: str) -> Turn | None:
    before = model.optimizer
    scale = before if isinstance(before, keras.optimizers.LossScaleOptimizer) else None
    after, words = leaner(before if scale is None else scale.inner_optimizer, setting)
    if scale is not None:
        after = keras.optimizers.LossScaleOptimizer(after, scale.initial_scale, scale.dynamic_growth_steps)
    after.iterations.assign(before.iterations)  # where a schedule is
    keras_seams.set_optimizer(model, after)
    again = _put_aside(before)

    def holds() -> bool:
        return after in (model.optimizer, getattr(model.optimizer, "inner_optimizer", None))

    return Turn("optimizer", words, False, lambda: keras_seams.set_optimizer(model, again()), holds)


def _put_aside(optimizer: Any) -> Callable[[], Any]:
    """What gives an optimizer back. Where it has slots already, they wait on the host: they are to leave the device."""
    if not optimizer.built:
        return lambda: optimizer
    written = keras.optimizers.serialize(optimizer)
    values = [one.numpy() for one in optimizer.variables]
    variables = keras_seams.trained_by(optimizer)

    def again() -> Any:
        found = keras.optimizers.deserialize(written)
        found.build(variables)
        for variable, value in zip(found.variables, values, strict=True):
            variable.assign(value)
        return found

    return again


def _precision(model: Any, setting: str) -> Turn | None:
    scales = setting == "float16"
    if scales and not keras_seams.uses_keras_own_step(model):
        raise UsageError(
            "A train_step of one's own does not scale its loss, and float16 would lose small gradients",
            hint="bfloat16, which needs no scale: plan='mixed_precision=bfloat16'",
        )
    layers = [one for one in keras_seams.all_layers(model) if one.dtype_policy.name == "float32"]
    given = {id(one) for one in keras_seams.output_layers(model)}
    turned = [one for one in layers if id(one) not in given]
    if not turned:
        return None
    for one in turned:
        one.dtype_policy = f"mixed_{setting}"
    optimizer = model.optimizer
    factor = getattr(optimizer, "loss_scale_factor", None)
    wraps = scales and optimizer is not None and not isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if wraps:
        keras_seams.set_optimizer(model, keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer"))

    def back() -> None:
        for one in turned:
            one.dtype_policy = "float32"
        if wraps and getattr(model.optimizer, "inner_optimizer", None) is optimizer:
            setattr(optimizer, "loss_scale_factor", factor)  # noqa: B010 # it is there where it wraps
            keras_seams.set_optimizer(model, optimizer)

    words = f"layers compute in {setting}, weights stay in float32" + (", the loss is scaled" if wraps else "")
    return Turn("precision", words, False, back, lambda: turned[0].dtype_policy.name == f"mixed_{setting}")
