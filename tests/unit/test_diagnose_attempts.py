"""What a guard tried last makes a diagnosis better: plain values on the exception, no TensorFlow."""

from __future__ import annotations

import dataclasses

import pytest

import fitroom
from fitroom.core import Attempt, Cause, Diagnosis, Footprint, Parts
from fitroom.units import GIB, MIB

WORDS = (
    "OOM when allocating tensor with shape[64,112,112,64] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node model_1/conv_a_1/Relu}}]]"
)
TRIED = Attempt(
    phase="gradients", trains=True, batch_size=64, at_once=64, limit_bytes=8 * GIB, in_use_bytes=2 * GIB,
    model_bytes=2 * GIB, layers=("model", "conv_a", "dense"), words=WORDS,
)  # fmt: skip


def diagnosed(footprint: Footprint | None = None, **changes: object) -> Diagnosis:
    error = RuntimeError("it does not fit")
    error.attempt = dataclasses.replace(TRIED, **changes)  # type: ignore[attr-defined, arg-type] # as DoesNotFit does
    return fitroom.diagnose(error, footprint)


def test_layer_phase_and_numbers_are_the_models_own() -> None:
    found = diagnosed(refused="layer bn normalises over the batch", hint="allow it")
    assert (found.layer, found.phase, found.wanted_bytes) == ("conv_a", "forward", 196 * MIB)
    assert (found.limit_bytes, found.in_use_bytes) == (8 * GIB, 2 * GIB)
    assert found.evidence[0].text == "RuntimeError: it does not fit"
    assert found.advice[0].code == "allow it"


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        (Cause.BATCH_OR_ACTIVATIONS, {"refused": "layer bn normalises over the batch"}),
        (Cause.BATCH_OR_ACTIVATIONS, {"at_once": 1}),
        (Cause.WEIGHTS_OR_OPTIMIZER_TOO_BIG, {"phase": "update"}),
        (Cause.WEIGHTS_OR_OPTIMIZER_TOO_BIG, {"at_once": 1, "model_bytes": 7 * GIB, "words": ""}),
        (Cause.LEAK_OVER_ITERATIONS, {"at_once": 1, "in_use_bytes": 7 * GIB, "model_bytes": 9}),
        (Cause.INFERENCE_TOO_LARGE, {"trains": False, "at_once": 1}),
    ],
)
def test_what_was_tried_tells_the_cause(cause: Cause, changes: dict[str, object]) -> None:
    found = diagnosed(**changes)
    assert found.cause is cause, found
    assert found.ran_out


def test_a_footprint_tells_what_would_fit() -> None:
    footprint = Footprint(64, Parts(weights=2 * GIB, activations=14 * GIB), "traced", 0.0)
    found = diagnosed(footprint, refused="layer bn normalises over the batch", hint="allow it")
    assert "16 GiB or more at batch 64, 8 GiB there: 2 slices of 32" in found.advice[0].effect
    assert str(found.remedies[0]) == "micro_batch=2"
    assert not found.remedies[0].exact


def test_what_was_tried_is_not_advised() -> None:
    found = diagnosed(at_once=1, recomputes=True)
    assert [one.name for one in found.remedies] == []
    assert not any("again" in one.what for one in found.advice)
    assert any("again" in one for one in found.futile)


@pytest.mark.parametrize("what", ["does not fit", "needs about 9.1 GiB"])
def test_its_words_in_a_log_are_read(what: str) -> None:
    found = fitroom.diagnose(
        f"fitroom.training.does_not_fit.DoesNotFit: A batch of 64 {what}, and slicing it would change the math: "
        "layer bn normalises over the whole batch. Received: 8 GiB on GPU:0, 2 GiB in use. Try: --allow micro_batch, "
        "which runs slices instead of whole batches\n"
    )
    assert (found.cause, found.limit_bytes, found.in_use_bytes) == (Cause.BATCH_OR_ACTIVATIONS, 8 * GIB, 2 * GIB)
    assert found.resource.value == "gpu_memory"
    assert found.advice[0].code == "--allow micro_batch"
