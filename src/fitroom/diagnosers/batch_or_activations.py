"""The step is too large: its activations grow with the batch."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import ops, replicas, sizes, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.diagnosers.single_giant_tensor import is_one_operation, is_round_block
from fitroom.patterns import Pattern
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.BATCH_OR_ACTIVATIONS
PAGE = page(
    CAUSE,
    "What layers make of a batch is kept until the way back has used it. That memory grows with the batch, the "
    "resolution, the length of sequences and the number of channels; weights do not.",
    "the tensor that failed begins with the batch, often 64 × 112 × 112 × 64 or the like; it fails in the first step "
    "or in a gradient; a smaller batch runs. The tensor named is the last straw, not the culprit.",
    "slices of the batch with one update for all of them, which Fitroom does without changing the result: fitroom run "
    'train.py, or fitroom.guard(model). Activations computed again instead of kept: plan="recompute". A smaller '
    "batch, smaller images, shorter sequences.",
)


_SAID = Pattern(
    r"\bbatch[_ -]?size[^\n]{0,30}(?:too (?:big|large|high)|太大)|\b(?:reduc|decreas|lower|small|cut)\w*\s+"
    r"(?:the |your |my |its )?[`*]{0,2}(?:mini-?|\w{1,20}_)?batch"
    r"|\b(?:reduc|decreas|lower|small|short)\w*\s+(?:the |your |my )?"
    r"(?:image|resolution|sequence|crop|patch|input)[ _-]?(?:size|length|es|s)?\b|减[小少]\s?batch",
    re.IGNORECASE,
)


def clues(facts: Facts) -> Iterator[Clue]:
    """A leading axis that is a batch, a gradient of an activation, a block of XLA's."""
    if not facts.resource.is_memory:
        return
    rank = len(facts.shape or ())
    if facts.on_card:
        yield Clue(1.5, "where nothing shows another reason, it most often is the batch")
    if story.leads_with_batch(facts) and facts.shape:
        # A matrix of activations is rarely what fills a memory.
        points = 3.0 if rank >= 4 else 2.0 if rank == 3 else 1.0
        points = min(points, 1.5) if facts.shape[0] > 4096 else points
        yield Clue(points, f"the tensor begins with {facts.shape[0]}, as a batch does")
        if rank >= 4 and facts.resource.value == "host_memory":
            yield Clue(1.0, "it has the axes of an activation")
    elif rank >= 4 and facts.shape and facts.shape[0] == 1 and facts.on_card:
        yield Clue(1.0, "it has the axes of what a layer makes of one sample")
    elif story.is_flattened(facts) and facts.on_card and facts.shape:
        yield Clue(3.0, f"its leading axis, {facts.shape[0]}, looks like samples times something")
    elif rank == 2 and facts.shape and not story.is_weight(facts) and facts.on_card and not facts.is_giant():
        yield Clue(1.0, "rows of a matrix grow with the samples")
    if facts.is_tiny() and facts.layer and story.leads_with_batch(facts) and facts.on_card:
        yield Clue(1.5, f"it is the output of {facts.layer}: the step had filled the memory")
    yield from said(facts, _SAID)
    is_step = not facts.is_tiny() and not is_round_block(facts) and not is_one_operation(facts)
    if facts.face in ("xla-out-of-memory", "hbm-exceeded") and is_step:
        yield Clue(1.5, "XLA asks for what a whole step needs in one block")
    if facts.op and ops.is_backward(facts.op) and not story.is_weight(facts) and facts.on_card:
        yield Clue(0.5, "it failed on the way back, where most is kept")
    if facts.face == "constant-not-parsed" and replicas.has_strategy(facts):
        yield Clue(2.0, "a constant found no room on one replica: the step had filled the memory")
    if name := replicas.loop(facts):
        yield Clue(0.5, f"it failed in a loop over the data inside {name}, and the whole loop with it")
    attempt = facts.attempt
    if attempt and attempt.trains and attempt.phase == "gradients":
        if attempt.at_once > 1:
            yield Clue(6.0, f"{attempt.at_once} samples at once did not fit; fewer were not tried: {attempt.refused}")
        else:
            yield Clue(2.0, "what a single sample turns into did not fit")
    if facts.footprint is not None and facts.footprint.parts.activations > facts.footprint.peak / 2:
        size = format_bytes(facts.footprint.parts.activations)
        yield Clue(4.0, f"activations take {size} of the step's peak")


def advice(facts: Facts) -> Iterator[Advice]:
    """Slices, recomputation, a smaller batch."""
    batch, fits, count = story.batch(facts), sizes.fitting_batch(facts), sizes.slices(facts)
    need = sizes.needed(facts)
    numbers = ""
    if batch and fits and need and facts.limit:
        numbers = f"{format_bytes(need)} or more at batch {batch}, {format_bytes(facts.limit)} there: "
    attempt = facts.attempt
    if batch == 1:
        if not (attempt and attempt.recomputes):
            yield Advice(
                "Compute activations again instead of keeping them: a batch of 1 cannot be cut",
                "a third more time, and often half of the memory",
                'fitroom.guard(model, plan="recompute")',
            )
        yield Advice("Smaller images, shorter sequences or fewer channels", "halving both sides of an image: a quarter")
        return
    if name := replicas.loop(facts):
        # Measured on two replicas: the loop and one call per batch have the same peak.
        yield Advice(
            f"Take the loop over the data out of {name}: one batch per call",
            "the same memory; but a step that fails can be tried again in slices, and those before it count",
            "for batch in distributed: train_step(batch)    # with train_step = fitroom.step(train_step, …)",
        )
    effect = "as much less as there are slices"
    if batch and count:
        effect = f"{numbers}{count} slices of {-(-batch // count)}"
    if attempt and attempt.refused:
        if attempt.hint:
            yield Advice("Allow slices, if you may: the result is another one", effect, attempt.hint)
    else:
        code = f'fitroom run train.py    # or: fitroom.guard(model, plan="micro_batch={count or 4}")'
        yield Advice("Run it in slices, with one update for all of them: the same result", effect, code)
    if fits and batch:
        # On the way back the peak is near; before it, more is to come.
        safe = fits if facts.op and ops.is_backward(facts.op) else max(1, fits // 2)
        yield Advice(
            "Take a smaller batch, if you may change the training",
            f"batch {batch} → at most {fits} can fit" + (f"; {safe} to be safe" if safe < fits else ""),
            f"batch_size={safe}",
        )
    elif batch:
        yield Advice(
            "Take a smaller batch, if you may change the training",
            f"half of {batch} needs about half of the activations' memory",
            f"batch_size={max(1, batch // 2)}",
        )
    if not (attempt and attempt.recomputes):
        yield Advice(
            "Compute activations again instead of keeping them: the same result",
            "a third more time, and often half of the memory",
            'fitroom.guard(model, plan="recompute")',
        )


def futile(facts: Facts) -> Iterator[str]:
    """What people try and what does not change a step's peak."""
    if facts.attempt and facts.attempt.recomputes:
        yield "computing activations again: they were already"
    if facts.resource.is_memory:
        yield "clear_session(), gc.collect() or memory growth: the step itself needs this much"
