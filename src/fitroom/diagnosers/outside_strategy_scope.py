"""Something that the training needs was made outside the strategy's scope. Nothing ran out."""

from __future__ import annotations

from fitroom.core import Advice, Cause
from fitroom.diagnosers import misuse
from fitroom.diagnosers.cause import Clue, page
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.OUTSIDE_STRATEGY_SCOPE
PAGE = page(
    CAUSE,
    "A strategy mirrors the variables that are made within its scope. A model, an optimizer or a metric that was made "
    "outside has one variable where the others have one per device, and cannot be trained with them. Where everything "
    "is outside, nothing is raised: Keras trains on the first device alone, and that one fills up.",
    "'Need to be inside \"with strategy.scope()\"', 'Mixing different tf.distribute.Strategy objects', 'must only be "
    "passed a variable created in this tf.distribute.Strategy.scope()', 'Trying to create optimizer slot variable "
    "under the scope', 'was not created in the distribution strategy scope'. Memory has no part in it.",
    "make the model, the optimizer and the metrics, and load weights, within one scope of one strategy: with "
    "strategy.scope(): model = build(); model.compile(…). fit may be called outside.",
)
_NOT_MIRRORED = Pattern(
    r"inside \"with strategy\.scope|colocate_vars_with|not created in the distribution|_distributed_tf_update_step"
)
_TWO = Pattern(
    r"Mixing different[^\n]{0,160}MirroredStrategy object[^\n]{0,40} is not <[^\n]{0,120}MirroredStrategy object"
)
_MIXED = Pattern(r"Mixing different|optimizer slot variable")


def clues(facts: Facts) -> Iterator[Clue]:
    """TensorFlow's own words."""
    if facts.misuse != misuse.OUTSIDE_SCOPE:
        return
    if _TWO.search(facts.words):
        yield Clue(6.0, "two strategies are used together: one made the model, and another trains it")
    elif _NOT_MIRRORED.search(facts.words):
        yield Clue(6.0, "the model's variables were made outside the scope in which the optimizer was made")
    elif _MIXED.search(facts.words):
        yield Clue(6.0, "the optimizer, or the model's compile, is outside the scope in which variables are mirrored")
    else:
        yield Clue(6.0, "what compile got was made in another scope than the model")


def advice(facts: Facts) -> Iterator[Advice]:
    """One scope for all of it."""
    if _TWO.search(facts.words):
        yield Advice(
            "Make one strategy, once, and use it for everything", "", "strategy = tf.distribute.MirroredStrategy()"
        )
    yield Advice(
        "Make the model, the optimizer and the metrics within one scope, and compile there",
        "their variables then lie on every device",
        'with strategy.scope(): model = build(); model.compile(keras.optimizers.Adam(), "mse")',
    )
    yield Advice("In a loop of your own: call optimizer.build(model.trainable_variables) within the scope, too", "")


def futile(facts: Facts) -> Iterator[str]:
    """Memory."""
    if facts.misuse:
        yield "a smaller batch, or more memory: nothing ran out"
