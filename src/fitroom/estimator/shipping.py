"""A model, to be built again in another process: its configuration and its compilation, never its weights."""

from __future__ import annotations

import pickle
import types
import warnings
from typing import Any

import keras

from fitroom.errors import FitroomError
from fitroom.estimator import keras_seams


class CannotBeRebuilt(FitroomError):
    """A model whose configuration does not give the same model again."""


def pack(model: Any) -> bytes:
    """What `unpack` needs.

    Raises:
        CannotBeRebuilt: if the model or its compilation cannot be written down.
    """
    import cloudpickle

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a lambda is unsafe in a file, not between our own processes
            packed = {
                "config": _written(model),
                "custom": _custom_objects(model),
                "variables": variables_of(model) or None,
                "trained": keras_seams.trained(model),
                "lambdas": keras_seams.lambdas(model),
                "settings": keras_seams.settings(),
            }
            return bytes(cloudpickle.dumps(packed))
    except CannotBeRebuilt:
        raise
    except Exception as error:  # whatever somebody's get_config raises, or a function's surroundings
        raise CannotBeRebuilt("The model cannot be written down", received=_why(error)) from error


def _written(model: Any) -> dict[str, Any]:
    found = {"compile": keras.saving.serialize_keras_object(keras_seams.compile_arguments(model))}
    if not type(model).__module__.startswith("keras."):  # what somebody's own compile() set beside
        found["beside"] = keras.saving.serialize_keras_object(keras_seams.set_beside(model))
    if isinstance(model, keras.Sequential) or getattr(model, "inputs", None):
        return {**found, "model": keras.saving.serialize_keras_object(model)}
    config = keras_seams.own_config(model)
    # With variables, it can be compared with what the class makes without arguments; otherwise nobody would notice.
    if config is None and not model.variables and keras_seams.takes_arguments(model):
        raise CannotBeRebuilt(
            f"{type(model).__name__} does not say what it was made with", expected="a get_config() of its own"
        )
    return {**found, "class": type(model), "own": keras.saving.serialize_keras_object(config)}


def opened(content: bytes) -> dict[str, Any]:
    """What `pack` made.

    Raises:
        CannotBeRebuilt: if a class or function in it comes from a module that is not to be had here.
    """
    try:
        packed: dict[str, Any] = pickle.loads(content)
    except Exception as error:
        raise CannotBeRebuilt("The model's classes cannot be imported", received=_why(error)) from error
    return packed


def unpack(packed: dict[str, Any]) -> Any:
    """The model, compiled, with other weights.

    Raises:
        CannotBeRebuilt: if it cannot be built again.
    """
    keras_seams.set_settings(packed["settings"])
    config = packed["config"]

    def read(name: str) -> Any:
        return keras.saving.deserialize_keras_object(config[name], custom_objects=packed["custom"], safe_mode=False)

    try:
        if "model" in config:
            config["model"].pop("compile_config", None)
            with keras_seams.with_lambdas(packed["lambdas"]):
                model = read("model")
        elif config["own"] is None:
            model = config["class"]()
        else:
            model = config["class"].from_config(read("own"))
        # Keras' own: somebody's own compile() takes what only he knows, and what it sets is in `beside`.
        keras.Model.compile(model, **{**read("compile"), "steps_per_execution": 1})
        for name, value in read("beside").items() if "beside" in config else ():
            if getattr(model, name, None) is None:
                setattr(model, name, value)
        for layer, (name, is_trained) in zip(keras_seams.all_layers(model), packed["trained"], strict=False):
            if layer.name == name:
                layer.trainable = is_trained
    except Exception as error:  # whatever somebody's class raises
        raise CannotBeRebuilt("The model cannot be built again", received=_why(error)) from error
    return model


def check(model: Any, packed: dict[str, Any]) -> None:
    """Whether a model that has been run is the one that was packed.

    Raises:
        CannotBeRebuilt: if it is not.
    """
    expected, found = packed["variables"], variables_of(model)
    if expected is not None and expected != found:
        raise CannotBeRebuilt("The model that was built again has other variables")


def variables_of(model: Any) -> list[tuple[tuple[int, ...], str, bool]]:
    """Shape, type and whether it is trained, of each variable."""
    trained = {id(one) for one in model.trainable_variables}
    return [(tuple(one.shape), str(one.dtype), id(one) in trained) for one in model.variables]


def _custom_objects(model: Any) -> dict[str, Any]:
    """The classes and functions that are not Keras' own, by the names under which a configuration knows them.

    Raises:
        CannotBeRebuilt: if two have one name.
    """
    found: dict[str, Any] = {}
    for one in keras_seams.all_parts(model):
        made = one if isinstance(one, types.FunctionType) else type(one)
        if isinstance(made, type) and made.__module__.split(".")[0] in ("keras", "builtins"):
            continue
        for name in {made.__name__, keras.saving.get_registered_name(made)}:
            if found.setdefault(name, made) is not made and not made.__module__.startswith("keras."):
                raise CannotBeRebuilt("Two functions or classes of the model have one name", received=name)
    return found


def _why(error: BaseException) -> str:
    """The innermost reason, in one line: Keras wraps them in pages."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
