"""The lines of a log → its failures, told apart: each with the signs of exhaustion in it and the lines around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from fitroom import oom, oom_words
from fitroom.diagnosers.lines import Passage
from fitroom.patterns import Pattern

# A training that goes on: what comes after it is another failure.
PROGRESS = Pattern(
    r"\b[Ee]poch:?\s+\d+\s*(?:/|of\b)|\d+/\d+\s+[\[━]|\d+/\d+ - \d+s|\d+%\||\bloss\s*[:=]\s*[\d.]+|\b[Ss]tep:?\s+\d+\b"
    r"|\b(?:ETA|acc|accuracy|val_loss)\s*[:=]\s*[\d.]+"
)
_EXCEPTION = Pattern(r"(?:^|[\s.:`'\"(*])(?:\w+\.)*\w*(?:Error|Exception)\b(?:\s\([^)\n]{0,60}\))?\s*:")
_BEFORE, _AFTER = 400, 160  # lines around the signs that belong to a failure
_NEAR = 20_000  # characters before a sign in which progress is looked for
_MOST = 50  # failures


@dataclass
class Failure:
    """One time that something ran out.

    Attributes:
        signs: the places that say so.
        first, last: the indices of the lines of the first and last sign.
        times: how often it came, with progress in between.
    """

    signs: list[oom.Sign]
    first: int
    last: int
    times: int = 1
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def certain(self) -> bool:
        """Whether the words leave no doubt that something ran out."""
        return any(sign.found.certain for sign in self.signs)

    @property
    def main(self) -> oom.Sign:
        """The sign to go by: the most telling one of the first line that is certain, else of all."""
        order = [face.code for face in oom.FACES]
        certain = [sign for sign in self.signs if sign.found.certain]
        signs = [sign for sign in certain if sign.found.evidence == certain[0].found.evidence] or self.signs
        return min(signs, key=lambda sign: order.index(sign.found.face))


def told_apart(passage: Passage) -> list[Failure]:
    """The failures in a log, in their order. Likely ones count only where there is no certain one of their kind."""
    found: list[Failure] = []
    for sign in oom.signs(passage.text):
        _take(sign, found, passage)
    certain = [failure for failure in found if failure.certain]
    resources = {failure.main.found.resource for failure in certain}
    return [one for one in found if one.certain or (one.main.found.resource not in resources)][:_MOST]


def around(passage: Passage, failures: list[Failure], number: int) -> tuple[Passage, Passage]:
    """What was said before a failure, since the one before it; and what was said of it."""
    failure = failures[number]
    start = failures[number - 1].last + 1 if number else 0
    end = failures[number + 1].first if number + 1 < len(failures) else len(passage.lines)
    opening = max(start, failure.first - 12)
    of_it = passage.part(opening, min(end, failure.last + _AFTER))
    return passage.part(max(start, failure.first - _BEFORE), opening), of_it


def _take(sign: oom.Sign, found: list[Failure], passage: Passage) -> None:
    line = passage.index(sign.start)
    shape = oom_words.shape(passage.text[sign.start : sign.start + 300])
    axes = shape.axes if shape else ()
    for earlier in reversed(found[-8:]):
        between = passage.text[max(earlier.signs[-1].start, sign.start - _NEAR) : sign.start]
        goes_on = PROGRESS.search(between) is not None
        if not _same_resource(earlier, sign):
            continue
        if not goes_on and earlier is found[-1] and not _is_another(earlier, axes, passage, line):
            earlier.signs.append(sign)
            earlier.last = line
            earlier.shapes.append(axes)
            return
        if goes_on and _same_words(earlier, sign, axes):
            earlier.times += 1
            if earlier is found[-1]:
                earlier.signs.append(sign)
            return
    found.append(Failure([sign], line, line, shapes=[axes]))


def _same_resource(failure: Failure, sign: oom.Sign) -> bool:
    if not sign.found.certain or not failure.certain or not sign.found.placed:
        return True
    return any(one.found.resource is sign.found.resource for one in failure.signs if one.found.certain)


def _same_words(failure: Failure, sign: oom.Sign, axes: tuple[int, ...]) -> bool:
    return any(one.found.face == sign.found.face for one in failure.signs) and (not axes or axes in failure.shapes)


def _is_another(failure: Failure, axes: tuple[int, ...], passage: Passage, line: int) -> bool:
    """Whether a second exception names another tensor: operations that fail side by side are one failure."""
    if not axes or not _EXCEPTION.search(passage.lines[line].text):
        return False
    before = [passage.lines[passage.index(one.start)].text for one in failure.signs]
    named = [known for known, text in zip(failure.shapes, before, strict=False) if known and _EXCEPTION.search(text)]
    return bool(named) and axes not in failure.shapes
