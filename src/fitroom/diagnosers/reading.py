"""Text → facts: each failure in a log with the numbers and names that its words tell."""

from __future__ import annotations

import dataclasses

from fitroom import oom, oom_words
from fitroom.core import Evidence, Footprint, Resource
from fitroom.diagnosers import attempts, dump, misuse, ops, replicas
from fitroom.diagnosers.cleaning import printable
from fitroom.diagnosers.facts import Facts
from fitroom.diagnosers.failures import Failure, around, told_apart
from fitroom.diagnosers.lines import Passage
from fitroom.patterns import Pattern

_EVIDENCE = 6  # lines
_WIDTH = 300  # characters of a line of evidence


def read(passage: Passage, footprint: Footprint | None = None) -> list[Facts]:
    """The facts of every failure in a log, in their order; where there is none, those of what only looks like one."""
    failures = told_apart(passage)
    if not failures:
        return [_nothing(passage)]
    several = replicas.told(passage.text)
    found = [_facts(passage, failures, number, footprint) for number in range(len(failures))]
    return [dataclasses.replace(one, replicas=several) for one in found]


def _facts(passage: Passage, failures: list[Failure], number: int, footprint: Footprint | None) -> Facts:
    failure = failures[number]
    main = failure.main.found
    before, of_it = around(passage, failures, number)
    words = oom.HARMLESS.sub(" ", of_it.text)
    place = max(0, words.find(main.evidence[:60]))
    told = words[place:]  # from the line that tells on
    tensor = oom_words.shape(told) or oom_words.shape(words)
    arena = (dump.torch(told) or dump.bfc(words)) if main.is_memory else None
    named = (oom_words.device(words) or oom_words.device(before.text)) if main.is_memory else None
    wanted = oom_words.wanted(told)
    if wanted is None or (tensor is not None and tensor.dtype):
        wanted = oom_words.wanted(words)
    if wanted is None and main.is_memory and (refused := oom.HARMLESS.search(of_it.text)):
        wanted = oom_words.amount(next(filter(None, refused.groups())))
    limit = arena.limit if arena and arena.limit is not None else dump.limit(words)
    attempt = attempts.of_text(words)
    if limit is None and attempt is not None:
        limit = attempt.limit_bytes
    allocator = (oom_words.allocator(words) or oom_words.allocator(of_it.text)) if main.is_memory else None
    serves = replicas.of_allocator(allocator) if main.resource is Resource.GPU_MEMORY else None
    return Facts(
        resource=main.resource,
        face=main.face,
        certain=failure.certain,
        words=words,
        before=before.text,
        times=failure.times,
        device=main.device or (named[0] if named and named[1] is main.resource else serves),
        wanted=wanted,
        shape=tensor.axes if tensor else None,
        dtype=tensor.dtype if tensor else None,
        op=ops.named(told) or ops.named(words),
        allocator=allocator,
        limit=limit,
        arena=arena,
        refused="from device: CUDA_ERROR_OUT_OF_MEMORY" in before.text + of_it.text,
        evidence=_evidence(passage, failure, of_it),
        footprint=footprint,
        attempt=attempt,
    )


_TELLING = Pattern(
    r"requested\s+by\s+op|\bLimit:|(?<![A-Za-z])InUse:|Sum\s+Total\s+of\s+in-use|\[\[\{?\{?[Nn]ode|Detected at node"
    r"|\[Op:|rounded to \d+|LargestFreeBlock|memory_limit"
)


def _evidence(passage: Passage, failure: Failure, of_it: Passage) -> tuple[Evidence, ...]:
    """The lines that the diagnosis rests on: signs first, then those with numbers and names, in the log's order."""
    chosen: dict[str, int] = {}
    signs = sorted(failure.signs, key=lambda sign: sign is not failure.main and not sign.found.certain)
    for sign in signs:
        line = passage.lines[passage.index(sign.start)]
        chosen.setdefault(printable(line.text)[:_WIDTH], line.number)
        if len(chosen) == _EVIDENCE - 2:
            break
    for line in of_it.lines:
        if len(chosen) < _EVIDENCE and _TELLING.search(line.text):
            chosen.setdefault(printable(line.text)[:_WIDTH], line.number)
    return tuple(Evidence(text, line) for text, line in sorted(chosen.items(), key=lambda one: one[1]))


def _nothing(passage: Passage) -> Facts:
    """What is known where nothing ran out: a strategy used wrongly, or harmless lines that worried somebody."""
    if wrong := misuse.found(passage.text):
        line = passage.lines[passage.index(wrong.start)]
        return misused(wrong, passage.text, Evidence(printable(line.text)[:_WIDTH], line.number))
    found = list(oom.HARMLESS.finditer(passage.text))
    evidence: dict[str, int] = {}
    for match in found[:200]:
        line = passage.lines[passage.index(match.start())]
        evidence.setdefault(printable(line.text)[:_WIDTH], line.number)
    wanted = [oom_words.amount(next(filter(None, match.groups()))) or 0 for match in found]
    return Facts(
        resource=Resource.NOT_EXHAUSTION,
        face="",
        certain=True,
        words=passage.text,
        wanted=max(wanted, default=None),
        device=named[0] if found and (named := oom_words.device(passage.text)) else None,
        allocator=oom_words.allocator(passage.text) if found else None,
        evidence=tuple(Evidence(text, line) for text, line in list(evidence.items())[:_EVIDENCE]),
    )


def misused(wrong: misuse.Misuse, words: str, evidence: Evidence) -> Facts:
    """What is known of an error of a strategy's."""
    return Facts(Resource.NOT_EXHAUSTION, "", True, words[wrong.start :], evidence=(evidence,), misuse=wrong.code)
