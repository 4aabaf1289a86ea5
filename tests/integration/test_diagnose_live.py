"""An exception that was caught under a guard is diagnosed with what the guard knows: layer, phase, numbers, plan."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import fitroom
from fitroom.core import Cause, Diagnosis
from fitroom.devices import pocket
from fitroom.units import MIB
from tests.faults import Fault
from tests.guard_cases import LABELS, MODELS, make


def given_up(name: str, where: str) -> tuple[fitroom.DoesNotFit, Diagnosis]:
    """The error of a guarded model whose step never fits, and its diagnosis."""
    model = fitroom.guard(make(name, "adam", Fault(at_calls=lambda call: True), where))
    with pytest.raises(fitroom.DoesNotFit) as caught:
        model.train_on_batch(MODELS[name][1][:8], LABELS[:8])
    return caught.value, fitroom.diagnose(caught.value)


def advised(found: Diagnosis) -> str:
    return " ".join(f"{one.what} {one.effect} {one.code}" for one in found.advice)


def test_slices_that_were_refused_are_the_plan() -> None:
    _, found = given_up("cnn_batch_norm", "gradient")
    assert found.cause is Cause.BATCH_OR_ACTIVATIONS
    assert "8 samples at once did not fit" in found.why[0]
    assert "BatchNormalization" in found.why[0]
    assert found.advice[0].code == "fitroom.guard(model, allow=('micro_batch',))"
    assert [(one.name, one.exact) for one in found.remedies] == [("micro_batch", False)]
    assert "recompute" not in advised(found)
    assert any("computing activations again" in one for one in found.futile)
    assert found.limit_bytes == pocket.limit()


def test_an_update_that_does_not_fit_is_the_models_size() -> None:
    _, found = given_up("cnn_layer_norm", "update")
    assert (found.cause, found.phase) == (Cause.WEIGHTS_OR_OPTIMIZER_TOO_BIG, "update")
    assert any("smaller batch" in one for one in found.futile)


def test_a_log_says_the_same_as_the_exception() -> None:
    error, found = given_up("cnn_batch_norm", "forward")
    log = f"Traceback (most recent call last):\nfitroom.training.does_not_fit.DoesNotFit: {error}\n"
    told = fitroom.diagnose(log)
    assert (told.cause, told.resource) == (found.cause, found.resource)
    assert told.advice[0] == found.advice[0]
    assert told.limit_bytes == found.limit_bytes


def test_a_real_failure_names_the_layer_the_phase_and_the_numbers() -> None:
    # A product of matrices: a convolution's way back does not look whether it got memory, and crashes.
    model = keras.Sequential([keras.Input((1 << 18, 2)), kl.Dense(64, name="wide"), kl.GlobalMaxPooling1D()])
    model.compile("sgd", "mse")
    fitroom.guard(model)
    x, y = np.zeros((1, 1 << 18, 2), "float32"), np.zeros((1, 64), "float32")
    with pocket.ballast(40 * MIB), pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        model.train_on_batch(x, y)
    found = fitroom.diagnose(caught.value)
    assert isinstance(caught.value, fitroom.DoesNotFit)
    assert found.cause is Cause.LEAK_OVER_ITERATIONS, found  # the ballast: tensors that somebody keeps
    assert "that are not the model's were in use" in found.why[0]
    assert found.layer == "wide"
    assert found.phase in ("forward", "backward")
    assert found.tensor_shape == (1 << 18, 64)
    assert found.wanted_bytes == 64 * MIB
    assert found.limit_bytes == pocket.limit()
    assert (found.in_use_bytes or 0) > 0
    assert "slices of" not in advised(found)
    print(found)
