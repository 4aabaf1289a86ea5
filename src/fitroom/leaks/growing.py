"""Containers and arrays of the user's that grow from walk to walk through the heap."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any, NamedTuple

from fitroom.leaks import adding, holders, sizes
from fitroom.leaks.census import Census, Named
from fitroom.leaks.facts import Held
from fitroom.leaks.places import is_users_class
from fitroom.leaks.scene import Scene
from fitroom.leaks.source import ADDS
from fitroom.units import KIB

_WALKS = 3  # in which something was longer each time
_LEAST = 32 * KIB  # that have come, before its holder is looked for: that is another walk
_MOST = 6  # holders that are looked for at once
_LONGEST = 0.7  # seconds, in which that is begun
_SLOWING = 0.3  # of the speed before: then it settles


class _At(NamedTuple):
    turn: int
    length: int
    kinds: Counter[str]
    size: sizes.Size = sizes.Size()
    identity: int = 0


class Growing:
    """Follows lengths by identity, over the walks."""

    def __init__(self) -> None:
        self._lengths: dict[int, list[_At]] = {}
        self._arrays: dict[tuple[int, str], list[_At]] = {}
        self._known: dict[int, Held] = {}
        self._not_theirs: set[int] = set()
        self._last: Census | None = None
        self._kinds: Counter[str] = Counter()  # at the last walk

    @property
    def last(self) -> Census | None:
        """The walk before this one."""
        return self._last

    def weight(self) -> int:
        """What is remembered here, in bytes of malloc's: the tables, whose entries are Python's own."""
        tables = (self._last.lengths, self._last.arrays) if self._last is not None else ()
        return sum(map(sys.getsizeof, (self._lengths, self._arrays, self._not_theirs, *tables)))

    def take(self, census: Census, kinds: Counter[str], scene: Scene) -> tuple[Held, ...]:
        """Compare a walk with those before; what has grown in each of the last, and is the user's."""
        before = self._last
        self._last = census.bare()
        if before is None:
            self._kinds = kinds
            self._arrays = {key: [_of_name(census.turn, kinds, named)] for key, named in census.arrays.items()}
            return ()
        found: list[tuple[sizes.Size, Any, list[_At]]] = []
        # What has neither grown nor shrunk may grow once an epoch.
        tracks = {at: track for at, track in self._lengths.items() if census.lengths.get(at) == track[-1].length}
        waiting = [
            self._known[at]
            for at, track in tracks.items()
            if at in self._known and (self._known[at].is_bounded or _may_wait(track, census.turn))
        ]
        for thing in census.grown:
            at = id(thing)
            if at in self._not_theirs:
                continue
            start = [_At(before.turn, before.lengths[at], self._kinds)] if at in before.lengths else []
            track = [*self._lengths.get(at, start), _At(census.turn, len(thing), kinds)]
            tracks[at] = track
            if _goes_on(track):
                size = _size(thing, track[-1].length - track[0].length)
                if size.total >= _LEAST or (size.opaque and size.opaque >= _WALKS):
                    found.append((size, thing, track))
        self._kinds = kinds
        self._lengths = tracks
        found.sort(key=lambda one: (-one[0].total, -one[0].opaque))
        self._known = {at: held for at, held in self._known.items() if at in tracks}
        left, until = _MOST, time.monotonic() + _LONGEST
        for size, thing, track in found:
            known = self._known.get(id(thing))
            if known is None and (not left or time.monotonic() > until):
                continue
            left -= known is None
            held = self._held(size, thing, track, scene, (found, census.grown), known)
            if held is not None:
                self._known[id(thing)] = held
                waiting.append(held)
        named = {held.name.rsplit(".", 1)[-1] for held in waiting}
        arrays = [one for one in self._grown_arrays(census, kinds, scene) if one.name not in named]
        return (*_together(waiting), *arrays)

    def _held(
        self,
        size: sizes.Size,
        thing: Any,
        track: list[_At],
        scene: Scene,
        ignored: tuple[Any, ...],
        known: Held | None,
    ) -> Held | None:
        kinds = track[-1].kinds - track[0].kinds
        turns, grown = track[-1].turn - track[0].turn, track[-1].length - track[0].length
        if known is not None:  # who holds it was looked for before
            return known.now(len(thing), grown, size, turns, kinds)
        passing = next(one for one in ignored[0] if one[1] is thing)
        holder = holders.find(thing, scene, (*ignored, passing))
        if holder is None:
            self._not_theirs.add(id(thing))
            return None
        files = (*holder.files, *scene.files)
        lines = (
            [holder.place]
            if holder.place is not None
            else adding.lines(holder.keys, holder.files, holder.scope, others=scene.files)
        )
        is_bounded = holder.bound is not None or getattr(thing, "maxlen", None) is not None
        cls = type(thing).__name__ if is_users_class(type(thing)) else ""
        is_bounded = is_bounded or adding.is_bounded(holder.keys, files, holder.scope, cls)
        words = _words(size, grown)
        of = holder.name, tuple(lines), len(thing), grown, size, turns, kinds, words
        return Held(*of, is_bounded, isinstance(thing, dict))

    def _grown_arrays(self, census: Census, kinds: Counter[str], scene: Scene) -> list[Held]:
        """Variables whose tensor or array is larger each time, or whose list is another one: else its length tells."""
        tracks, found = {}, []
        for key, named in census.arrays.items():
            size = named.size
            track = [*self._arrays.get(key, []), _of_name(census.turn, kinds, named)]
            if len(track) > 1 and track[-2].length > size.total:
                track = track[-1:]
            elif len(track) > 1 and track[-2].length == size.total:
                track = track[:-1]
            tracks[key] = track
            grown = track[-1].length - track[0].length
            is_one_list = len({at.identity for at in track}) == 1 and named.identity
            if _goes_on(track) and not is_one_list and track[-1].turn == census.turn and grown >= _LEAST:
                lines = adding.lines((key[1],), scene.files, ranks=(ADDS,))  # not one that is set to another
                if lines and not adding.is_bounded((key[1],), scene.files):
                    turns, passed = track[-1].turn - track[0].turn, track[-1].kinds - track[0].kinds
                    came = track[-1].size.plus(track[0].size, -1.0)
                    came = came if came.pieces else came.plus(sizes.Size(pieces=int(size.pieces > 0)))
                    found.append(Held(key[1], tuple(lines), 0, 0, came, turns, passed, "more each time"))
        self._arrays = tracks
        return found


def _together(found: list[Held]) -> list[Held]:
    """Several containers under one name, filled by one line, as one: the lists in ``kept[label].append(x)``."""
    known: dict[tuple[object, ...], Held] = {}
    for held in found:
        key = (held.name, held.lines[:1], held.is_bounded)
        known[key] = known[key].with_more(held) if key in known else held
    return list(known.values())


def _of_name(turn: int, kinds: Counter[str], named: Named) -> _At:
    return _At(turn, named.size.total, kinds, named.size, named.identity)


def _may_wait(track: list[_At], turn: int) -> bool:
    """Whether a container that grows only now and then can be expected to, still."""
    turns, grown = track[-1].turn - track[0].turn, track[-1].length - track[0].length
    return turn - track[-1].turn <= max(2 * turns / max(1, grown), 0.35 * turns)


def _goes_on(track: list[_At]) -> bool:
    """Whether it was longer in each of the last walks, and does not slow down."""
    if len(track) < _WALKS:
        return False
    first, middle, last = track[0], track[len(track) // 2], track[-1]
    if last.length - first.length < _WALKS or middle.turn in (first.turn, last.turn):
        return False
    before = (middle.length - first.length) / (middle.turn - first.turn)
    now = (last.length - middle.length) / (last.turn - middle.turn)
    return now >= _SLOWING * before


def _size(thing: Any, grown: int) -> sizes.Size:
    """What the elements hold that have come."""
    try:
        sample = sizes.newest(thing, grown)
        total = sizes.Size()
        for one in sample:
            total = total.plus(sizes.of(one))
        return sizes.Size().plus(total, grown / max(1, len(sample)))
    except Exception:  # a class of anybody's, with a surprise in it
        return sizes.Size()


def _words(size: sizes.Size, grown: int) -> str:
    if size.models:
        return "models"
    if size.opaque:
        return "objects"
    if size.pieces:
        around = sizes.AROUND_A_TENSOR * size.pieces
        return "tensors" if size.other - around <= max(size.tensors, 64 * grown) else "elements with tensors in them"
    return "elements"
