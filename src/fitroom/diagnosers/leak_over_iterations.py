"""Memory that is never given back: each round keeps some."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import course, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.patterns import Pattern
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.LEAK_OVER_ITERATIONS
PAGE = page(
    CAUSE,
    "Something holds on to tensors, models or graphs from round to round: losses kept in a list, a model built anew in "
    "a loop, operations added to a graph, outputs that stay on the device.",
    "it runs well for a while, and fails in a later epoch, trial or fold, in a step like all those before; hardly "
    "anything was asked for; the same failure comes again and again.",
    "keep numbers instead of tensors (float(loss)); build models and datasets outside of loops; "
    "keras.backend.clear_session() between models, or a process for each: fitroom.isolated(train)(…).",
)

_SAID = Pattern(
    r"\b(?:memory )?leak(?:s|ed|ing|age)?\b|\bkeeps? (?:on )?(?:growing|increasing|rising|climbing)\b"
    r"|\bmemory (?:usage |use )?(?:steadily |continuously |slowly )?(?:grows|increases|accumulates|builds up)\b"
    r"|\bmore and more (?:GPU |host |of the )?(?:RAM|VRAM|memory)\b"
    r"|\baccumulat\w+ (?:in|on|over) (?:the )?(?:memory|GPU|card|RAM|VRAM|time)\b"
    r"|\b(?:never|not) (?:being )?(?:freed|released)\b|\bpil(?:es|ing) up\b|泄[漏露]|\bfrom the second (?:\w+ )?on\b",
    re.IGNORECASE,
)
_KEPT = Pattern(r"\.append\(\s*(?:torch\.|tf\.|jnp\.|model\(|(?:loss|losses|outputs?|preds?|logits|state)\))")
_MANY_OPERATIONS = 300_000  # a large model with its way back has some ten thousand


def clues(facts: Facts) -> Iterator[Clue]:
    """Late, again and again, for hardly anything, in a loop over models, in a copy to the device."""
    if facts.face == "proto-2gb":
        if "GraphDef" in facts.words:
            yield Clue(3.0, "a graph that is saved while training may grow with every step")
            if ".finalize()" in facts.words:
                yield Clue(3.0, "the graph is to be frozen, so that nothing adds to it")
            if course.is_growing(facts):
                yield Clue(3.0, "it had gone well for a while")
        return
    if not facts.resource.is_memory:
        return
    done, rounds = course.epochs(facts), course.rounds(facts)
    if done >= 1:
        yield Clue(5.0 if done >= 3 else 2.5, f"{done} epoch{'s' * (done > 1)} had gone well")
    elif course.steps(facts) >= 1000:
        yield Clue(2.0, f"{course.steps(facts)} steps had gone well")
    if rise := course.rises(facts):
        yield Clue(4.0, f"what was in use only ever rose: {format_bytes(rise[0])} → {format_bytes(rise[1])}")
    # Retracing makes memory grow, too, and is more than somebody's word.
    yield from said(facts, _SAID, 1.0 if course.retracings(facts) else 5.0)
    if _KEPT.search(facts.words[-12_000:]):
        yield Clue(3.0, "what a step makes is put into a list, and kept")
    if rounds >= 2:
        yield Clue(4.0, f"it is round {rounds} of a loop")
    if course.models(facts) >= 8:
        is_sure = course.models(facts) >= 15 or story.is_inference(facts)
        yield Clue(4.0 + is_sure, f"it is model {course.models(facts) + 1} of this process")
    if course.graphs(facts) >= _MANY_OPERATIONS:
        yield Clue(3.5, f"{course.graphs(facts)} operations had been made: models are made again and again")
    if course.is_in_loop(facts):
        yield Clue(2.0, "it is said to happen in a loop, or after a while")
    if course.node_number(facts) >= 1000:
        yield Clue(4.0, f"{facts.op} is numbered: the graph grows with every round")
    if facts.times >= 3:
        yield Clue(1.5, f"the same failure came {facts.times} times, with progress in between")
    if "clear_session" in facts.words:
        yield Clue(2.0, "models are built in a loop")
    attempt = facts.attempt
    if attempt and attempt.model_bytes is not None and facts.limit:
        held = (attempt.in_use_bytes or 0) - attempt.model_bytes
        if held > 0.5 * facts.limit:
            words = f"{format_bytes(held)} that are not the model's were in use before the step: tensors are kept"
            yield Clue(7.0 if held > 0.8 * facts.limit else 3.0, words)
    arena = facts.arena
    if arena and arena.limit and arena.largest_request and arena.largest_request < arena.limit // 500:
        is_full = (arena.in_use or 0) > 0.9 * arena.limit
        words = f"full, though no request was larger than {format_bytes(arena.largest_request)}: small things pile up"
        yield Clue(6.0 if is_full else 0.0, words)
    if facts.on_card and facts.is_tiny():
        yield Clue(1.0, f"only {format_bytes(facts.tensor_bytes or 0)} were asked for: the memory was full before")
        if any(word in facts.words for word in ("to_device", "device_put", "device_mem", "EagerTensor", "EagerConst")):
            yield Clue(2.5, "it failed where data goes to the device: what went there before is still there")


def advice(facts: Facts) -> Iterator[Advice]:
    """Keep numbers, build once, a process each."""
    if facts.face == "proto-2gb":
        yield Advice(
            "Freeze the graph after it is built: what adds to it in a loop then fails, and shows itself",
            "the graph stays as large as it is",
            "tf.compat.v1.get_default_graph().finalize()",
        )
        return
    yield Advice(
        "Keep numbers, not tensors: losses, predictions, metrics",
        "each kept tensor keeps its memory",
        "losses.append(float(loss))",
    )
    yield Advice(
        "Each training in a process of its own, which gives everything back",
        "memory at the start of each round is that of the first",
        "fitroom.isolated(train)(…)    # or keras.backend.clear_session() between models",
    )
    yield Advice("Build models, datasets and tf.functions outside of loops", "")


def futile(facts: Facts) -> Iterator[str]:
    """A smaller batch."""
    yield "a smaller batch: it fails later, and fails"
