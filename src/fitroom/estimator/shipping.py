"""A model, to be built again in another process: its configuration and its compilation, never its weights."""

from __future__ import annotations

import types
import warnings
from typing import Any

import keras

from fitroom.errors import FitroomError
from fitroom.estimator import keras_seams


class CannotBeRebuilt(FitroomError):
    """A model whose configuration does not give the same model again."""


def pack(model: Any) -> dict[str, Any]:
    """What `unpack` needs, fit for cloudpickle.

    Raises:
        CannotBeRebuilt: if the model or its compilation cannot be written down.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a lambda is unsafe in a file, not between our own processes
            config = _written(model)
    except Exception as error:  # whatever somebody's get_config raises
        raise CannotBeRebuilt("The model cannot be written down", received=_first_line(error)) from error
    return {
        "config": config,
        "custom": _custom_objects(model),
        "variables": variables_of(model) if model.built else None,
        "settings": keras_seams.settings(),
    }


def _written(model: Any) -> dict[str, Any]:
    found = {"compile": keras.saving.serialize_keras_object(keras_seams.compile_arguments(model))}
    if isinstance(model, keras.Sequential) or getattr(model, "inputs", None):
        return {**found, "model": keras.saving.serialize_keras_object(model)}
    # A model of somebody's own class: as it was made, and what its compile() set beside.
    arguments, beside = keras_seams.made_with(model), keras_seams.set_beside(model)
    return {
        **found,
        "class": type(model),
        "arguments": keras.saving.serialize_keras_object(arguments),
        "beside": keras.saving.serialize_keras_object(beside),
    }


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
            model = read("model")
        else:
            model = config["class"](**read("arguments"))
        # Keras' own: somebody's own compile() takes what only he knows, and what it sets is in `beside`.
        keras.Model.compile(model, **{**read("compile"), "steps_per_execution": 1})
        for name, value in read("beside").items() if "beside" in config else ():
            if getattr(model, name, None) is None:
                setattr(model, name, value)
    except Exception as error:  # whatever somebody's class raises
        raise CannotBeRebuilt("The model cannot be built again", received=_first_line(error)) from error
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
    """The classes and functions that are not Keras' own, by the names under which a configuration knows them."""
    found: dict[str, Any] = {}
    for one in [model, *keras_seams.all_layers(model), *keras_seams.compiled_with(model)]:
        for made in [type(one), one, *keras_seams.attributes(one)]:
            is_own_class = isinstance(made, type) and made.__module__.split(".")[0] not in ("keras", "builtins")
            if is_own_class or isinstance(made, types.FunctionType):
                found[made.__name__] = made
    return found


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
