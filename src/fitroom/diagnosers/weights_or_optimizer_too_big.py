"""The model itself is too large: weights, their gradients, the optimizer's slots."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import ops, sizes, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.patterns import Pattern
from fitroom.units import GIB, MIB, format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.WEIGHTS_OR_OPTIMIZER_TOO_BIG
PAGE = page(
    CAUSE,
    "Every weight is there once for itself, once for its gradient, and with Adam twice more for the slots: four times "
    "its size, whatever the batch.",
    "it fails while the model is built, in the first update, or with a batch of 1; the operation is an initializer, an "
    "optimizer's (Adam, Momentum, Assign) or the gradient of a kernel; hardly anything was asked for, and the memory "
    "was full; several models are alive at once.",
    "find the layer that holds most (model.summary()): nearly always Flatten before Dense, or an Embedding. Pool "
    "before you flatten; a smaller vocabulary or width; an optimizer with fewer slots; mixed precision. Slices of the "
    "batch do not help.",
)


_SAID = Pattern(
    r"\b(?:model|network|layer|embedding) (?:is |was |being )?(?:far |way |simply )?too (?:big|large|heavy)\b"
    r"|\bmodel (?:\w+ )?(?:does not|doesn't|cannot|can't|won't|will not) fit\b|\b(?:GPU|card) (?:that )?is too small\b"
    r"|\bscal(?:e|ed|ing) (?:this |the |my )?(?:model|network) down\b|\btoo many (?:parameters|weights|units|neurons)\b"
    r"|\b(?:smaller|reduc\w+ (?:the )?|few\w*) (?:model|network|units|neurons|hidden (?:size|units)|vocabulary)\b",
    re.IGNORECASE,
)
_EMBEDDING = Pattern(r"\bEmbedding\(\s*(?:input_dim|self\.|\w*vocab|\d{5,})")


def clues(facts: Facts) -> Iterator[Clue]:
    """An optimizer's operation, a kernel's shape, a full memory and a tiny request, a batch of one."""
    if not facts.resource.is_memory and facts.face != "proto-2gb":
        return
    op, shape, arena = facts.op or "", facts.shape or (), facts.arena
    if ops.is_optimizer(op):
        yield Clue(5.0, f"the operation is the optimizer's: {op}")
    elif ops.is_initializer(op):
        yield Clue(4.0, f"the operation makes a weight: {op}")
    elif story.is_weight(facts) and ((facts.tensor_bytes or 0) < GIB or not op):
        yield Clue(3.0, "the tensor has the shape of a kernel")
    elif ops.is_backward(op) and not shape and "MatMul_1" in op:
        yield Clue(4.0, f"the gradient of a kernel was asked for: {op}")
    elif story.kernel_is_of(facts, "assign_op", "variable_ops", "training_ops"):
        yield Clue(3.0, "a variable was being made or updated")
    if story.is_built(facts) and not ops.is_backward(op):
        yield Clue(3.5, "it failed while the model was being made")
    yield from said(facts, _SAID)
    if story.batch_is_not_it(facts):
        yield Clue(4.0, "it is said that another batch size changes nothing")
    if facts.face == "python-memory-error" and _EMBEDDING.search(facts.words[-12_000:]):
        yield Clue(3.5, "an embedding of a large vocabulary is made there")
    if "mbedding" in op and ops.is_backward(op):
        yield Clue(2.0, "the gradient of an embedding was asked for")
    if facts.on_card and facts.is_tiny() and not ops.is_initializer(op) and facts.face != "dst-tensor-not-initialized":
        size = format_bytes(facts.tensor_bytes or 0)
        yield Clue(2.5, f"only {size} were asked for: the memory was full before")
    if arena and arena.limit and arena.largest_request and (arena.in_use or 0) > 0.8 * arena.limit:
        is_small = arena.largest_request < 0.05 * arena.limit
        if is_small and (arena.requests or 10**9) < 50_000:
            largest = format_bytes(arena.largest_request)
            yield Clue(4.0, f"no request was larger than {largest}: many weights, not one tensor")
    if shape[:1] == (1,) and len(shape) >= 4 and facts.on_card and (facts.tensor_bytes or GIB) < 64 * MIB:
        yield Clue(1.0, "a batch of 1 fails, at a small tensor")
    attempt = facts.attempt
    if attempt and attempt.phase == "update":
        yield Clue(6.0, "it was the optimizer's update that did not fit, which no smaller batch makes smaller")
    elif attempt and attempt.at_once <= 1 and facts.limit and (attempt.model_bytes or 0) > 0.5 * facts.limit:
        yield Clue(
            4.0, f"the model and its optimizer hold {format_bytes(attempt.model_bytes or 0)} before the step begins"
        )
    if facts.footprint is not None:
        fixed = facts.footprint.parts.weights + facts.footprint.parts.optimizer
        if fixed > facts.footprint.peak / 2:
            yield Clue(4.0, f"weights and slots take {format_bytes(fixed)} of the step's peak")


def advice(facts: Facts) -> Iterator[Advice]:
    """A smaller layer, fewer slots, half precision."""
    size = facts.tensor_bytes or 0
    where = f" of {facts.layer}" if facts.layer else ""
    if facts.shape and len(facts.shape) == 2 and size > 256 * MIB:
        rows, columns = facts.shape
        yield Advice(
            f"Make the kernel{where} smaller: pool before you flatten, or take fewer units",
            f"{rows} × {columns} is {format_bytes(size)}, and {format_bytes(4 * size)} with its gradient and "
            "Adam's slots; a 2 × 2 pooling before it: a quarter",
            "x = keras.layers.GlobalAveragePooling2D()(x)    # instead of Flatten()",
        )
    else:
        yield Advice(
            f"Find the layer that holds most{where and f'; it failed in {facts.layer}'}",
            "with Adam each weight counts four times: itself, its gradient, two slots",
            "model.summary()    # and: print(fitroom.estimate(model, batch_size=1))",
        )
    yield Advice(
        "An optimizer with fewer slots",
        "SGD needs half of what Adam needs; Adafactor little more",
        "keras.optimizers.Adafactor()",
    )
    if facts.on_card:
        yield Advice(
            "One model at a time: each in a process of its own gives everything back",
            "all that earlier models hold",
            "fitroom.isolated(train)(…)",
        )


def futile(facts: Facts) -> Iterator[str]:
    """Smaller batches."""
    yield "a smaller batch: weights, gradients and slots stay as large"
    if sizes.slices(facts) is None and story.batch(facts) == 1:
        yield "slices: a batch of 1 has failed already"
