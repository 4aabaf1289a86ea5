"""One of several devices is full, and others are nearly empty."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import cards, replicas
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.patterns import Pattern
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.UNEVEN_DEVICES
PAGE = page(
    CAUSE,
    "What counts is the fullest device: a training on several ends when one of them is full, however empty the others "
    "are. One fills up first where the model was made outside the strategy's scope and trains on it alone, where "
    "tensors or data are placed on it by name, or where another process has a part of it.",
    "nvidia-smi, gpustat or the allocators' statistics show one card full and others nearly empty, while the program "
    "means to use them all.",
    "make model and optimizer within strategy.scope(); take tf.device('GPU:0') out; leave datasets on the host; "
    "see in nvidia-smi whether another process is on the full card.",
)
_FULL, _EMPTY = 0.8, 0.4
_ONE_CARD = r"(?:GPU|card)[ :_]?0|(?:one|the first|a single)(?: of (?:the|my) \w+)?(?: GPU| card)?"
_SAID = Pattern(
    rf"\b(?:only|just) (?:{_ONE_CARD})\s+(?:is|was|gets|got)\s+(?:being\s+)?(?:used|utili[sz]ed|filled|full|loaded)\b"
    r"|\b(?:other|second|remaining|rest of the)\s+(?:\w+\s+)?(?:GPUs?|cards?)\s+"
    r"(?:is|are|was|were|stays?|remains?|sits?)\s+(?:\w+\s+){0,2}?(?:idle|empty|unused|not used)\b",
    re.IGNORECASE,
)
_PLACED = Pattern(r"tf\.device\(\s*f?[\"']/?(?:device:)?GPU:0[\"']", re.IGNORECASE)


def clues(facts: Facts) -> Iterator[Clue]:
    """How full each card was, and that all were meant to be used; words beside the log; a device that is named."""
    if not facts.resource.is_memory:
        return
    if found := _uneven(facts):
        full, empty = found
        words = (
            f"GPU:{full.number} had {format_bytes(full.used)} of {format_bytes(full.total)} in use, "
            f"GPU:{empty.number} {format_bytes(empty.used)} of {format_bytes(empty.total)}"
        )
        # Of a program that means to use one card, an idle one says nothing; of several processes, others are to blame.
        is_ours = replicas.has_strategy(facts) and cards.processes(facts, full.number) < 2
        yield Clue(9.0 if is_ours else 1.0, words)
    if replicas.has_strategy(facts):
        yield from said(facts, _SAID, 5.0)
        if facts.device and replicas.index(facts.device) == 0 and _PLACED.search(facts.words + facts.before[-40_000:]):
            yield Clue(2.0, "something is placed on GPU:0 by name")


def _uneven(facts: Facts) -> tuple[cards.Load, cards.Load] | None:
    """The card that failed, and the emptiest one, where the one is full and the other is not."""
    loads = cards.loads(facts)
    if len(loads) < 2:
        return None
    number = replicas.index(facts.device)
    full = next((one for one in loads if one.number == number), None)
    if number is None:
        full = max(loads, key=lambda one: one.share)
    empty = min(loads, key=lambda one: one.share)
    return (full, empty) if full and full.share >= _FULL and empty.share <= _EMPTY else None


def advice(facts: Facts) -> Iterator[Advice]:
    """Within the scope, nothing by name, nobody else."""
    yield Advice(
        "Make the model and the optimizer within the strategy's scope: outside of it Keras trains on one device",
        "each device then holds the weights, and its share of the batch",
        'with strategy.scope(): model = build(); model.compile("adam", "mse")',
    )
    yield Advice(
        "Place nothing on one card by name: tensors, embeddings, a dataset that was put on the device",
        "",
        'with tf.device("CPU:0"): dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(256)',
    )
    yield Advice("See who else is on the full card", "what they hold comes free when they end", "nvidia-smi")


def futile(facts: Facts) -> Iterator[str]:
    """More cards."""
    yield "more cards: the one that is full stays as full"
