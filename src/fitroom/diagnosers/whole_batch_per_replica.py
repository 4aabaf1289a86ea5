"""Every replica of a strategy gets the whole batch, where each was to get its share."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import replicas, story
from fitroom.diagnosers.cause import Clue, page
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.WHOLE_BATCH_PER_REPLICA
PAGE = page(
    CAUSE,
    "Under a strategy the batch is the global one: fit and distributed datasets give each of N replicas an N-th of it. "
    "train_on_batch, and strategy.run with a plain tensor, give every replica all of it; and a size that was "
    "multiplied by the number of replicas where each replica batches for itself does the same.",
    "the tensor that failed begins with the global batch that the log names; train_on_batch in the traceback of a "
    "training on several replicas; a second device brings no relief.",
    "fit, or a distributed dataset: strategy.experimental_distribute_dataset(dataset.batch(global_batch)). In "
    "distribute_datasets_from_function use context.get_per_replica_batch_size(global_batch).",
)
_GLOBAL = Pattern(r"\bglobal[_ -]?batch(?:[_ -]?size)?\s*(?:of|is|[=:])?\s*(\d{1,6})\b", re.IGNORECASE)
_ON_BATCH = Pattern(r"\bin ((?:train|test|predict)_on_batch)\b|\b\w+\.((?:train|test|predict)_on_batch)\(")


def clues(facts: Facts) -> Iterator[Clue]:
    """A function that does not share out; an axis as long as the global batch, or as the product."""
    if not facts.resource.is_memory or not replicas.are_several(facts):
        return
    if name := _on_batch(facts):
        yield Clue(7.0, f"{name} gives every replica the whole batch")
    size, count = _leading(facts), facts.replicas.count
    if size and size in _numbers(_GLOBAL, facts):
        of = f" instead of {-(-size // count)}" if count > 1 else ""
        yield Clue(7.0, f"the tensor of one replica begins with {size}, the global batch{of}")
    elif size and count > 1 and _is_product(facts, size, count):
        words = f"{size // count} samples times {count} replicas"
        yield Clue(7.0, f"the tensor of one replica begins with {size}: {words}")


def _on_batch(facts: Facts) -> str | None:
    match = _ON_BATCH.search(facts.words[-40_000:])
    return match[1] or match[2] if match else None


def _leading(facts: Facts) -> int | None:
    return facts.shape[0] if facts.shape and story.leads_with_batch(facts) else None


def _is_product(facts: Facts, size: int, count: int) -> bool:
    """Whether the log names the N-th of it as the batch, and multiplies by the number of replicas."""
    is_multiplied = "num_replicas_in_sync" in facts.words or "num_replicas_in_sync" in facts.before[-40_000:]
    return is_multiplied and size % count == 0 and size // count in story.batches(facts)


def _numbers(pattern: Pattern, facts: Facts) -> set[int]:
    return {int(one) for one in pattern.findall(f"{facts.before[-40_000:]}\n{facts.words[-40_000:]}")}


def advice(facts: Facts) -> Iterator[Advice]:
    """Let the strategy share it out."""
    size, count = _leading(facts), facts.replicas.count
    effect = f"{-(-size // count)} samples on each of {count} replicas instead of {size}" if size and count > 1 else ""
    if name := _on_batch(facts):
        whole = {"train_on_batch": "fit", "test_on_batch": "evaluate", "predict_on_batch": "predict"}[name]
        code = f"model.{whole}(dataset.batch(global_batch))    # not {name}"
        yield Advice(
            f"Call {whole} instead, which gives each replica its share", effect or "less on each replica", code
        )
    else:
        yield Advice(
            "Give the strategy a dataset with the global batch, and let it share it out",
            effect or "each replica gets its share",
            "for batch in strategy.experimental_distribute_dataset(dataset.batch(global_batch)): "
            "strategy.run(step, (batch,))",
        )
    yield Advice(
        "Or run it in slices, with one update for all of them: the same result",
        "as much less as there are slices",
        "fitroom run train.py",
    )


def futile(facts: Facts) -> Iterator[str]:
    """More devices."""
    yield "more devices: each of them gets as much again"
