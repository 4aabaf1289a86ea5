"""What each slice's loss counts for, so that the slices together give the whole batch's gradient.

    reduction                  a slice's share
    sum_over_batch_size, mean  its samples ÷ all samples; with a mask, its valid entries ÷ all valid entries
    mean_with_sample_weight    its weights ÷ all weights (times the mask)
    sum, none                  1
    weight regularisers        its samples ÷ all samples: together once
    add_loss, sum-type         1; activity regularisers are of this type
    add_loss, mean-type        its samples ÷ all samples

The loss is weighed, not the gradient: in float16 a gradient of a slice would overflow at another scale than the whole
batch's. Where a share depends on a mask or on weights, the totals are counted first, in a pass of their own whose
graph TensorFlow prunes to what the counts need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import tensorflow as tf

from fitroom.steps import keras_seams
from fitroom.steps.replacing import instead

ExtraKind = Literal["mean", "sum"]


@dataclass
class Tally:
    """What tracing a slice found out about its losses: one amount per loss of `compile`, None for sums."""

    amounts: list[Any] = field(default_factory=list)
    counted: bool = False  # whether any amount depends on more than the number of samples
    # What each loss tracker would have been fed, by its place, and whether with a weight: Keras gives none where it
    # does not know the batch size when tracing.
    tracked: dict[int, tuple[Any, bool]] = field(default_factory=dict)


@contextmanager
def weighed(
    model: Any, samples: Any, total_samples: Any, totals: Any | None, extras: Sequence[ExtraKind]
) -> Iterator[Tally]:
    """While tracing a slice, weigh its losses and hold back what the loss trackers are fed.

    Args:
        samples: the slice's number of samples, a tensor.
        total_samples: the whole batch's.
        totals: the whole batch's amount per loss; None while they are being counted.
        extras: the kinds of the model's `add_loss` terms, in order; weight regularisers come after them.
    """
    tally = Tally()
    share = tf.cast(samples, tf.float32) / tf.cast(total_samples, tf.float32)
    seen_extras = 0

    def weigh(loss: Any, weights: Any, mask: Any, reduction: str | None) -> Any:
        amount = _amount(weights, mask, reduction)
        index = len(tally.amounts)
        if reduction in ("sum", "none", None):
            tally.amounts.append(tf.constant(0.0))
            return loss
        if amount is None:
            tally.amounts.append(tf.constant(0.0))
            return loss * tf.cast(share, loss.dtype)
        tally.counted = True
        tally.amounts.append(amount)
        if totals is None:
            return loss
        return loss * tf.cast(tf.math.divide_no_nan(amount, totals[index]), loss.dtype)

    def weigh_extra(loss: Any) -> Any:
        nonlocal seen_extras
        kind = extras[seen_extras] if seen_extras < len(extras) else "mean"
        seen_extras += 1
        return loss if kind == "sum" else loss * tf.cast(share, loss.dtype)

    def hold(index: int) -> Any:
        def update_state(value: Any, sample_weight: Any = None) -> None:
            value = tf.cast(value, tf.float32)
            if value.shape.rank != 0:  # an unreduced loss: the tracker takes its mean
                value = tf.reduce_mean(value) * share
            tally.tracked[index] = value, sample_weight is not None

        return update_state

    with ExitStack() as stack:
        stack.enter_context(keras_seams.weighed_losses(model, weigh, weigh_extra))
        for index, tracker in enumerate(keras_seams.loss_trackers(model)):
            stack.enter_context(instead(tracker, "update_state", hold(index)))
        yield tally


def _amount(weights: Any, mask: Any, reduction: str | None) -> Any | None:
    """What a slice's mean was divided by, where that is not its number of samples."""
    if reduction == "mean_with_sample_weight" and weights is not None:
        total = tf.cast(weights, tf.float32)
        if mask is not None:
            other = tf.cast(mask, tf.float32)
            while other.shape.rank < total.shape.rank:
                other = other[..., None]
            while total.shape.rank < other.shape.rank:
                total = total[..., None]
            total = total * other
        return tf.reduce_sum(total)
    if mask is not None:
        return tf.reduce_sum(tf.cast(mask, tf.float32))
    return None
