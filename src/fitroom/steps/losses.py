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

from fitroom.steps import keras_seams, replicas
from fitroom.steps.replacing import instead

ExtraKind = Literal["mean", "sum"]


@dataclass
class Tally:
    """What tracing a slice on a replica found out about its losses.

    Attributes:
        samples: the slice's number of samples, a tensor.
        total_samples: that of the replica's whole share of the batch.
        totals: the whole share's amount per loss; None while they are being counted.
        amounts: the slice's, one per loss of `compile`; 0 for sums.
        counted: whether any amount depends on more than the number of samples.
        tracked: what each loss tracker would have been fed, by its place, and whether with a weight: Keras gives none
            where it does not know the batch size when tracing.
    """

    samples: Any = 1
    total_samples: Any = 1
    totals: Any | None = None
    amounts: list[Any] = field(default_factory=list)
    counted: bool = False
    tracked: dict[int, tuple[Any, bool]] = field(default_factory=dict)
    extras: int = 0  # seen so far

    @property
    def share(self) -> Any:
        """What the slice counts for, by its samples."""
        return tf.cast(self.samples, tf.float32) / tf.cast(self.total_samples, tf.float32)

    def weigh(self, loss: Any, weights: Any, mask: Any, reduction: str | None) -> Any:
        """A loss of `compile`, times what it counts for."""
        amount = _amount(weights, mask, reduction)
        index = len(self.amounts)
        if reduction in ("sum", "none", None):
            self.amounts.append(tf.constant(0.0))
            return loss
        if amount is None:
            self.amounts.append(tf.constant(0.0))
            return loss * tf.cast(self.share, loss.dtype)
        self.counted = True
        self.amounts.append(amount)
        if self.totals is None:
            return loss
        return loss * tf.cast(tf.math.divide_no_nan(amount, self.totals[index]), loss.dtype)

    def weigh_extra(self, loss: Any, kinds: Sequence[ExtraKind]) -> Any:
        """A loss that the model adds, times what it counts for."""
        kind = kinds[self.extras] if self.extras < len(kinds) else "mean"
        self.extras += 1
        return loss if kind == "sum" else loss * tf.cast(self.share, loss.dtype)

    def hold(self, index: int, value: Any, sample_weight: Any) -> None:
        """Hold back what a loss tracker is fed."""
        value = tf.cast(value, tf.float32)
        if value.shape.rank != 0:  # an unreduced loss: the tracker takes its mean
            value = tf.reduce_mean(value) * self.share
        self.tracked[index] = value, sample_weight is not None


class Weighing:
    """The tallies of a slice, one per replica: they are traced in turns, each up to where it waits for the others."""

    def __init__(self) -> None:
        self._tallies: dict[int, Tally] = {}

    def begin(self, tally: Tally) -> Tally:
        """The replica that is being traced now tallies here."""
        self._tallies[replicas.here()] = tally
        return tally

    @property
    def here(self) -> Tally:
        """The tally of the replica that is being traced now."""
        return self._tallies[replicas.here()]


@contextmanager
def weighed(model: Any, extras: Sequence[ExtraKind]) -> Iterator[Weighing]:
    """While tracing slices, weigh their losses and hold back what the loss trackers are fed.

    Args:
        model: compiled.
        extras: the kinds of the model's `add_loss` terms, in order; weight regularisers come after them.
    """
    weighing = Weighing()

    def hold(index: int) -> Any:
        return lambda value, sample_weight=None: weighing.here.hold(index, value, sample_weight)

    with ExitStack() as stack:
        stack.enter_context(
            keras_seams.weighed_losses(
                model,
                lambda *given: weighing.here.weigh(*given),
                lambda loss: weighing.here.weigh_extra(loss, extras),
            )
        )
        for index, tracker in enumerate(keras_seams.loss_trackers(model)):
            stack.enter_context(instead(tracker, "update_state", hold(index)))
        yield weighing


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
