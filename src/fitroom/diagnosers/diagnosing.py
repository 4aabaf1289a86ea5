"""The ways in: a text, an exception, a stream of bytes or a Record → a Diagnosis."""

from __future__ import annotations

import dataclasses
import io

from fitroom import oom, oom_words
from fitroom.core import Cause, Diagnosis, Event, Evidence, Footprint, Record, Remedy, Resource
from fitroom.diagnosers import CAUSES, attempts, misuse, replicas, sizes, story
from fitroom.diagnosers.cleaning import printable
from fitroom.diagnosers.facts import Facts
from fitroom.diagnosers.lines import Passage
from fitroom.diagnosers.reading import misused, read
from fitroom.diagnosers.sieve import Readable, worth_reading
from fitroom.errors import UsageError
from fitroom.remedies import micro_batch, recompute

_ALTERNATIVES = 3


def diagnose(what: BaseException | str | bytes, footprint: Footprint | None = None) -> Diagnosis:
    """What ran out, why, and what to do, by an exception or the text of a log.

    Args:
        what: an exception, as it was caught; or text.
        footprint: what the step that failed is known to need, if it is known: it makes the numbers better.

    Example:
        >>> diagnose("RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,9] and type float").wanted_bytes
        2304

    Raises:
        UsageError: if it is neither an exception nor text.
    """
    if isinstance(what, BaseException):
        return _of_exception(what, footprint)
    if isinstance(what, (str, bytes)):
        return of_stream(io.BytesIO(what.encode("utf-8", "replace") if isinstance(what, str) else what), footprint)
    raise UsageError(
        "Cannot diagnose this", received=type(what).__name__, expected="an exception, or the text of a log"
    )


def of_stream(stream: Readable, footprint: Footprint | None = None) -> Diagnosis:
    """The diagnosis of a log of any length: the first failure, with the later ones in `others`."""
    found = [weighed(facts) for facts in read(Passage(worth_reading(stream)), footprint)]
    return dataclasses.replace(found[0], others=tuple(found[1:]))


def of_record(record: Record) -> Diagnosis:
    """The diagnosis of a run, by what its events say: steps that ran out, and deaths."""
    steps, found = [], []
    for event in record.events:
        words = str(event.data.get("evidence") or "")
        if event.kind == "oom":
            steps.append(f"batch_size={event.data.get('samples')} {words}")
        elif event.kind == "progress" and steps:
            steps.append(f"step {event.data.get('steps')}")
        elif event.kind in ("death", "ran_out", "isolated_death"):
            found.append(_of_death(event, words))
    if steps or not found:
        first = diagnose("\n".join(steps) or "nothing ran out")
        found = [dataclasses.replace(first, others=()), *first.others, *found]
    return dataclasses.replace(found[0], others=tuple(found[1:]))


def _of_death(event: Event, words: str) -> Diagnosis:
    """The diagnosis of a process that is known to have died of memory."""
    said = diagnose(words)
    if said.ran_out and said.evidence and oom.from_text(words) is not None:
        return said
    resource = str(event.data.get("resource") or Resource.HOST_MEMORY.value)
    known = resource if resource in [one.value for one in Resource] else Resource.HOST_MEMORY.value
    facts = Facts(Resource(known), str(event.data.get("face") or "sigkill"), True, words)
    return dataclasses.replace(weighed(facts), evidence=(Evidence(printable(words)[:300]),))


def _of_exception(error: BaseException, footprint: Footprint | None) -> Diagnosis:
    """An exception's class counts, not only its words, so `fitroom.oom` has the last one; and what a guard tried."""
    decided, attempt = oom.from_exception(error), attempts.of_exception(error)
    words = "\n".join(_chain(error))
    if decided is None and attempt is None:
        return _of_innocent(words)
    runtimes = attempt.words if attempt is not None and attempt.words else words
    found = read(Passage(worth_reading(io.BytesIO(runtimes.encode("utf-8", "replace")))), footprint)
    first = found[0]
    if first.resource is Resource.NOT_EXHAUSTION or (decided is not None and first.resource is not decided.resource):
        first = _bare(words, decided)
    if attempt is not None:
        evidence = (Evidence(printable(words.splitlines()[0])[:300]), *first.evidence)
        limit = first.limit if first.limit is not None else attempt.limit_bytes
        first = dataclasses.replace(
            first, footprint=footprint, attempt=attempt, limit=limit, certain=True, evidence=evidence
        )
    return dataclasses.replace(weighed(first), others=tuple(weighed(one) for one in found[1:]))


def _of_innocent(words: str) -> Diagnosis:
    """An exception that memory has no part in: a strategy that was used wrongly, or nothing that is known."""
    wrong = misuse.found(words)
    start = words.rfind("\n", 0, wrong.start) + 1 if wrong else 0
    evidence = Evidence(printable(words[start:])[:300])
    if wrong is None:
        return Diagnosis(Resource.NOT_EXHAUSTION, Cause.UNKNOWN, 1.0, evidence=(evidence,))
    return weighed(misused(wrong, words, evidence))


def _chain(error: BaseException) -> list[str]:
    """The words of an exception, and of those that it was raised from."""
    words: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        words.append(f"{type(current).__name__}: {current}")
        current = current.__cause__
    return words


def _bare(words: str, decided: oom.Exhaustion | None) -> Facts:
    """What is known where the words alone say nothing, or something else."""
    place = oom_words.place(words)[0] or Resource.HOST_MEMORY
    known = decided or oom.Exhaustion(place, "does-not-fit", evidence=words[:400])
    evidence = (Evidence(printable(known.evidence)[:300]),)
    return Facts(known.resource, known.face, known.certain, words, evidence=evidence)


def weighed(facts: Facts) -> Diagnosis:
    """The cause that most speaks for, what else it could be, and what to do."""
    points: dict[Cause, float] = {}
    why: dict[Cause, tuple[str, ...]] = {}
    for one in CAUSES:
        clues = list(one.clues(facts))
        points[one.CAUSE] = sum(clue.points for clue in clues)
        why[one.CAUSE] = tuple(clue.why for clue in sorted(clues, key=lambda clue: -clue.points) if clue.why)
    ranked = sorted(CAUSES, key=lambda one: -points[one.CAUSE])
    best = ranked[0]
    others = [one.CAUSE for one in ranked[1:] if points[one.CAUSE] >= 1 and one.CAUSE is not Cause.UNKNOWN]
    share = points[best.CAUSE] / (sum(points.values()) or 1)
    arena = facts.arena
    return Diagnosis(
        resource=facts.resource,
        cause=best.CAUSE,
        confidence=round(share * (1.0 if facts.certain else 0.7), 2) if facts.face else 1.0,
        evidence=facts.evidence,
        device=facts.device,
        replica=replicas.failed(facts) if facts.resource.is_memory else None,
        wanted_bytes=facts.wanted,
        tensor_shape=facts.shape,
        dtype=facts.dtype,
        op=facts.op,
        layer=facts.layer,
        phase=facts.phase,
        allocator=facts.allocator,
        limit_bytes=facts.limit,
        in_use_bytes=facts.in_use,
        largest_free_bytes=arena.largest_free if arena else None,
        fragmentation=arena.fragmentation if arena else None,
        summary=_summary(facts, best.CAUSE.words),
        why=why[best.CAUSE],
        alternatives=tuple(others[:_ALTERNATIVES]),
        remedies=_remedies(facts, best.CAUSE),
        advice=tuple(best.advice(facts)),
        futile=tuple(best.futile(facts)),
        times=facts.times,
    )


def _summary(facts: Facts, title: str) -> str:
    """The cause in words; of nothing, that it is nothing."""
    if facts.resource is not Resource.NOT_EXHAUSTION or facts.misuse:
        return title
    return "These lines look worse than they are: the program went on" if facts.evidence else "Nothing in it ran out"


def _remedies(facts: Facts, cause: Cause) -> tuple[Remedy, ...]:
    """What Fitroom carries out by itself."""
    if cause not in (Cause.BATCH_OR_ACTIVATIONS, Cause.INFERENCE_TOO_LARGE) or not facts.resource.is_memory:
        return ()
    batch, need = story.batch(facts), sizes.needed(facts)
    found = []
    attempt = facts.attempt
    if batch is None or batch > 1:
        count = sizes.slices(facts) or 2
        saves = need - need // count if need else None
        exact = not (attempt and attempt.refused)
        found.append(dataclasses.replace(micro_batch.remedy(count, exact=exact), saves_bytes=saves))
    if cause is Cause.BATCH_OR_ACTIVATIONS and not (attempt and attempt.recomputes):
        found.append(recompute.remedy())
    return tuple(found)
