"""A stream of bytes of any length → the lines worth reading, with bounded memory.

Few lines of a log matter. They are found by searching large pieces for some words, which runs at the speed of memory;
only what is around a find, the beginning and the end are looked at line by line. What comes again and again is let
through some hundred times.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Protocol

from fitroom.diagnosers.cleaning import cleaned
from fitroom.diagnosers.lines import Line


class Readable(Protocol):
    """What can be read in pieces: a file, standard input."""

    def read(self, size: int, /) -> bytes:
        """As many bytes, or fewer; none at the end."""


# What a failure does not do without: few and long words, because each is searched for by itself, and long ones faster.
# An error that says none of this comes with a traceback, or ends the log.
NEEDLES = (
    b"ut of memory", b"RESOURCE_EXHAUSTED", b"OOM when allocating tensor with shape[", b" Killed ",
    b"Traceback (most recent call last)", b"terminate called after throwing an instance of '",
)  # fmt: skip
LATER = (b"Sum Total of in-use chunks",)  # the end of an allocator's dump: only where one has begun

PIECE = 1 << 20  # bytes read at a time
_HEAD = 128 << 10  # always read: what the start of a program says of its devices
_TAIL = 256 << 10  # always read: how it ended
_BEFORE, _AFTER = 32 << 10, 256 << 10  # bytes around a find; an allocator's dump is long
_LONGEST = 16 << 10  # bytes of a line that are read in one go
_OFTEN = 400  # as often a line is let through, whatever its numbers are
_FINDS = 40  # as often a line counts as a find
_FLOOD = 20_000  # as often it is looked at; from then on one in some kilobytes
_KINDS = 50_000  # of lines that are told apart
_FREE = 20_000  # the same for the free blocks in an allocator's dump: their sizes are wanted
_MOST = 3 << 20  # bytes let through in all, after which only the last ones are
_LAST = 4000  # lines
_NUMBERS = b"0123456789abcdef"


def worth_reading(stream: Readable) -> Iterator[Line]:
    """The lines of a log that may matter, in their order, each at most once."""
    budget = _MOST
    last: deque[Line] = deque(maxlen=_LAST)
    for line in _lines(stream):
        budget -= len(line.text)
        if budget >= 0:
            yield line
        else:
            last.append(line)
    yield from last


class _Seen:
    """How often lines were seen that differ in their numbers only."""

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()

    def any(self) -> bool:
        """Whether there was anything to count."""
        return bool(self._counts)

    def count(self, raw: bytes) -> int:
        """How often this line has been seen, with this time; once where too many kinds are there to tell."""
        kind = raw[:400].translate(None, _NUMBERS)[:100]
        if len(self._counts) >= _KINDS and kind not in self._counts:
            return 1
        self._counts[kind] += 1
        return self._counts[kind]


def _lines(stream: Readable) -> Iterator[Line]:
    seen = _Seen()
    for number, raw in _raw_lines(stream):
        if seen.count(raw) > (_FREE if b"Free  at " in raw else _OFTEN):
            continue
        for start in range(0, len(raw) or 1, _LONGEST):
            for text in cleaned(raw[start : start + _LONGEST]):
                if text.strip():
                    yield Line(number, text)


def _raw_lines(stream: Readable) -> Iterator[tuple[int, bytes]]:
    """The lines around finds, at the beginning and at the end, with their numbers."""
    held = b""  # the last part of what was searched, for what is before a find; and what is not searched yet
    searched = told = 0  # places in it
    number, counted = 1, 0  # of the line at the place `counted`
    wanted = _HEAD  # everything up to here is read
    finds = _Seen()
    for piece, is_last in _pieces(stream):
        buffer = held + piece
        limit = len(buffer) if is_last else _line_start(buffer, len(buffer) - _TAIL)
        if limit > searched:
            spans = [(0, wanted), *_around_finds(buffer, searched, limit, finds)]
            if is_last:
                spans.append((len(buffer) - _TAIL, len(buffer)))
            for start, end in _merged(spans):
                start, wanted = max(start, told), max(wanted, end)
                end = min(end, limit)
                if start >= end:
                    continue
                start = _line_start(buffer, start) if start > told else start
                end = limit if end == limit else _line_end(buffer, end)
                number += buffer.count(b"\n", counted, start)
                counted = start
                for raw in buffer[start:end].removesuffix(b"\n").split(b"\n"):
                    yield number, raw
                    number += 1
                number -= not buffer[start:end].endswith(b"\n")
                counted = told = max(told, end)
            searched = limit
        cut = _line_start(buffer, searched - _BEFORE)
        number += buffer.count(b"\n", counted, max(cut, counted))
        counted = max(cut, counted)
        held = buffer[cut:]
        searched, told, counted, wanted = searched - cut, max(0, told - cut), counted - cut, max(0, wanted - cut)


def _pieces(stream: Readable) -> Iterator[tuple[bytes, bool]]:
    """The stream in pieces, the last of them marked. What PowerShell redirects is UTF-16."""
    piece = stream.read(PIECE)
    order = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(piece[:2])
    while True:
        following = stream.read(PIECE)
        yield (piece if order is None else piece.decode(order, "replace").encode()), not following
        if not following:
            return
        piece = following


def _around_finds(buffer: bytes, start: int, limit: int, finds: _Seen) -> list[tuple[int, int]]:
    """The spans around needles, but for those in lines that have been found often enough."""
    spans = []
    for needle in (*NEEDLES, *LATER) if finds.any() else NEEDLES:
        # A needle may lie across the place up to which was searched before.
        place = buffer.find(needle, max(0, start - len(needle)), limit)
        while place >= 0:
            begin, end = _line_start(buffer, place), _line_end(buffer, place + len(needle))
            seen = finds.count(buffer[max(begin, place - 200) : end])
            if seen <= _FINDS:
                spans.append((place - _BEFORE, place + _AFTER))
                place = buffer.find(needle, place + _AFTER // 2, limit)
            else:
                is_whole = buffer[end - 1 : end] == b"\n"
                skipped = 0 if is_whole and seen < _FLOOD else _LONGEST
                place = buffer.find(needle, end + skipped, limit)
    return spans


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _line_start(buffer: bytes, place: int) -> int:
    """The start of the line at a place, or the place itself where the line is very long."""
    place = max(0, place)
    found = buffer.rfind(b"\n", max(0, place - _LONGEST), place)
    return found + 1 if found >= 0 else place if place > _LONGEST else 0


def _line_end(buffer: bytes, place: int) -> int:
    """The end of the line at a place, or the place itself where the line is very long."""
    found = buffer.find(b"\n", max(0, place - 1), place + _LONGEST)
    if found >= 0:
        return found + 1
    return place if place + _LONGEST < len(buffer) else len(buffer)
