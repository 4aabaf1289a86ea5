"""Too many samples at once in prediction or evaluation."""

from __future__ import annotations

from fitroom.core import Advice, Cause
from fitroom.diagnosers import ops, sizes, story
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.INFERENCE_TOO_LARGE
PAGE = page(
    CAUSE,
    "The whole test set, or far more samples than in training, goes through the model in one piece. Nothing has to be "
    "kept for a way back, but one layer's output for all of them is too much.",
    "training went well and evaluation fails; the leading axis is the size of the test set; predict, evaluate or eval "
    "in the traceback; many images for each prompt.",
    "batches: model.predict(x, batch_size=32) instead of model(x); a guarded model's evaluate and predict go in slices "
    "by themselves.",
)

_TEST_SETS = (5000, 10_000)  # MNIST, CIFAR, ImageNet: more are a whole training set


def clues(facts: Facts) -> Iterator[Clue]:
    """Where it happened."""
    if not facts.resource.is_memory or facts.face in ("numpy-array", "python-memory-error"):
        return
    if story.is_inference(facts):
        yield Clue(4.5, "it happened in prediction or evaluation")
        if facts.shape and facts.shape[0] >= 1000:
            yield Clue(2.0, f"{facts.shape[0]} samples went in at once")
    elif facts.shape and len(facts.shape) >= 4 and facts.shape[0] in range(2000, 10_001, 1000):
        if not ops.is_backward(facts.op or ""):
            yield Clue(4.5, f"{facts.shape[0]} samples at once: as many as a whole test set")
    elif facts.shape and facts.shape[0] in _TEST_SETS and not ops.is_backward(facts.op or "") and facts.on_card:
        yield Clue(2.8, f"{facts.shape[0]} samples at once: as many as a whole test set")
    elif facts.op == "Cast" and facts.face == "failed-to-allocate-memory" and facts.on_card:
        yield Clue(1.8, "data is converted in one piece, outside of a training step")
    elif (
        facts.resource.value == "tpu_memory"
        and facts.shape
        and len(facts.shape) == 3
        and facts.shape[1] == facts.shape[2]
    ):
        yield Clue(1.5, "scores of attention, without a way back, for many samples at once")


def advice(facts: Facts) -> Iterator[Advice]:
    """Batches."""
    count = facts.shape[0] if facts.shape else story.batch(facts)
    fits = sizes.fitting_batch(facts)
    effect = f"{count} at once → 32" if count and count > 32 else "as much less as the batch is smaller"
    if fits and count:
        effect = f"{count} at once → at most {fits} can fit"
    yield Advice("Predict in batches", effect, f"model.predict(x, batch_size={min(32, fits or 32)})    # not model(x)")
    yield Advice("Or have Fitroom slice it", "the same outputs", "fitroom.guard(model)")
    yield Advice("Take outputs off the device as they come", "", "outputs.append(model(batch).numpy())")


def futile(facts: Facts) -> Iterator[str]:
    """What is for training."""
    yield "gradient accumulation or recomputation: there is no way back"
