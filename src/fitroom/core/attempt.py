"""The last attempt at a step before it was given up: what a guard knows, and the runtime's message does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """Plain values, so that they can be diagnosed without TensorFlow.

    Attributes:
        phase: ``gradients``, which are the way forth and back, or ``update``.
        trains: whether it was a training step, not evaluation or prediction.
        batch_size: samples of the batch; 0 where it has no batch axis.
        at_once: samples that ran at once in the end: fewer than the batch where it ran in slices.
        limit_bytes: what the device may hold; None where its allocator does not count.
        in_use_bytes: what was in use before the step.
        model_bytes: how much of it the variables of the model and its optimizer are.
        recomputes: whether activations were computed again already.
        refused: why the batch was not cut into slices, where that would change the math.
        hint: what to type to allow it.
        layers: the names of the model's layers.
        words: the runtime's message; empty where it was given up before it ran.
    """

    phase: str
    trains: bool
    batch_size: int
    at_once: int
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    model_bytes: int | None = None
    recomputes: bool = False
    refused: str = ""
    hint: str = ""
    layers: tuple[str, ...] = ()
    words: str = ""
