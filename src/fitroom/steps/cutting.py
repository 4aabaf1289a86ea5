"""Where to cut a way forth into parts, and which of them to compute again: the most saving for the least time.

A way forth is a row of pieces, in the order in which they run. Plain training keeps, from there to the way back, what
every piece's gradient needs. A part that is computed again keeps only what goes on to other parts; what its pieces keep
comes to life once more when the way back reaches it, and by then what was kept behind it is gone. So the peak is

    the largest, over all parts, of what the parts up to it hold, what comes to life inside it, the gradients of the
    weights from there on, and what the way back works with

and the last part is never worth computing again: the way back starts there.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

_CEILINGS = 24  # how many peaks are aimed at
_WORKING = 2  # the way back works with so many tensors as large as the largest of a part


@dataclass(frozen=True)
class Piece:
    """One layer's call, or any other step of the computation.

    Attributes:
        makes: the tensors that it makes, with their bytes.
        uses: the tensors that it takes from before it.
        keeps: those of what it makes that the gradient needs, with their bytes.
        work: about how many operations it takes.
        weights: the bytes of the weights that it uses: their gradients are there from here on.
    """

    makes: Mapping[Hashable, int]
    uses: frozenset[Hashable]
    keeps: Mapping[Hashable, int]
    work: float
    weights: int = 0


@dataclass(frozen=True)
class Part:
    """Pieces from `start` to `stop`, run one after the other."""

    start: int
    stop: int
    is_recomputed: bool


@dataclass(frozen=True)
class Cut:
    """A way to cut, with what it is expected to come to.

    Attributes:
        parts: all pieces, in order.
        kept: bytes of activations and gradients at the peak.
        work: of what is computed again, as a share of one way forth.
    """

    parts: tuple[Part, ...]
    kept: int
    work: float

    @property
    def recomputed(self) -> list[Part]:
        """The parts that are computed again."""
        return [part for part in self.parts if part.is_recomputed]


def plain(pieces: Sequence[Piece]) -> Cut:
    """Nothing is computed again."""
    return Row(pieces).cut([(0, len(pieces))], set())


def most(pieces: Sequence[Piece]) -> Cut:
    """The lowest peak."""
    row = Row(pieces)
    return min(row.candidates(), key=lambda cut: (cut.kept, cut.work))


def least_work(pieces: Sequence[Piece], goal: int) -> Cut:
    """The least work that keeps at most `goal` bytes; the lowest peak where nothing does."""
    row = Row(pieces)
    candidates = row.candidates()
    leaner = [row.relieved(cut, goal) for cut in candidates if cut.kept <= goal]
    if not leaner:
        return min(candidates, key=lambda cut: (cut.kept, cut.work))
    return min(leaner, key=lambda cut: (cut.work, cut.kept))


def half(pieces: Sequence[Piece]) -> Cut:
    """Half of what the lowest peak saves, in the least time."""
    return least_work(pieces, (plain(pieces).kept + most(pieces).kept) // 2)


def fewer(pieces: Sequence[Piece], goal: int) -> Cut:
    """The least work that keeps at most `goal` bytes, and well below what plain training keeps: that ran out."""
    return least_work(pieces, min(goal, plain(pieces).kept * 3 // 4))


def chooser(setting: int | str) -> Callable[[Sequence[Piece]], Cut]:
    """What a setting means: "high", "low", or how many bytes may be kept."""
    if isinstance(setting, int):
        return functools.partial(least_work, goal=setting)
    return {"high": most, "low": half}[setting]


class Row:
    """Pieces in their order, and what cutting them comes to."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._last_use = {one: index for index, piece in enumerate(pieces) for one in piece.uses}
        self._inside = [0, *itertools.accumulate(sum(piece.keeps.values()) for piece in pieces)]
        self._work = [0.0, *itertools.accumulate(piece.work for piece in pieces)]
        self._weights = [0, *itertools.accumulate(piece.weights for piece in pieces)]
        self._largest = [max(piece.makes.values(), default=0) for piece in pieces]

    def candidates(self) -> list[Cut]:
        """Cuts with ever lower peaks, as far as they go; all parts computed again but the last that keeps anything."""
        found = [self.cut([(0, len(self.pieces))], set())]
        for number in range(1, _CEILINGS):
            edges = self._edges(found[0].kept * (1 - number / _CEILINGS))
            if edges is None:
                break
            spans = list(itertools.pairwise(edges))
            last = max(index for index, span in enumerate(spans) if self._saved(*span) or not index)
            found.append(self.cut(spans, set(spans[:last])))
        return found

    def relieved(self, cut: Cut, goal: int) -> Cut:
        """The same parts, as many as can be kept after all, those first that cost most for what they save."""
        spans = [(part.start, part.stop) for part in cut.parts]
        again = {(part.start, part.stop) for part in cut.recomputed}
        best = cut
        for span in sorted(again, key=lambda one: (self._saved(*one) / max(self._worked(*one), 1.0), one)):
            tried = self.cut(spans, again - {span})
            if tried.kept <= goal:
                best, again = tried, again - {span}
        return best

    def cut(self, spans: list[tuple[int, int]], again: set[tuple[int, int]]) -> Cut:
        """What it comes to."""
        held = peak = 0
        for start, stop in spans:
            inside, onward = self._kept(start, stop)
            held += onward
            besides = self._weights[-1] - self._weights[start] + _WORKING * max(self._largest[start:stop])
            peak = max(peak, held + inside + besides)
            if (start, stop) not in again:
                held += inside
        return Cut(
            parts=tuple(Part(start, stop, (start, stop) in again) for start, stop in spans),
            kept=peak,
            work=sum(self._worked(*span) for span in again) / (self._work[-1] or 1.0),
        )

    def _kept(self, start: int, stop: int) -> tuple[int, int]:
        """What comes to life inside a part, and what goes on from it to others."""
        pieces = self.pieces[start:stop]
        onward = sum(size for piece in pieces for one, size in piece.makes.items() if self._goes_on(one, stop))
        inside = sum(size for piece in pieces for one, size in piece.keeps.items() if not self._goes_on(one, stop))
        return inside, onward

    def _goes_on(self, tensor: Hashable, stop: int) -> bool:
        return self._last_use.get(tensor, -1) >= stop

    def _saved(self, start: int, stop: int) -> int:
        return self._inside[stop] - self._inside[start]

    def _worked(self, start: int, stop: int) -> float:
        return self._work[stop] - self._work[start]

    def _edges(self, ceiling: float) -> list[int] | None:
        """Parts that stay below a peak and hold as little as can be; None where there are none."""
        held: list[float] = [0.0]
        back = [0]
        for stop in range(1, len(self.pieces) + 1):
            best, origin = float("inf"), -1
            inside = onward = largest = 0
            for start in range(stop - 1, -1, -1):
                piece = self.pieces[start]
                onward += sum(size for one, size in piece.makes.items() if self._goes_on(one, stop))
                inside += sum(size for one, size in piece.keeps.items() if not self._goes_on(one, stop))
                largest = max(largest, self._largest[start])
                besides = self._weights[-1] - self._weights[start] + _WORKING * largest
                if inside + besides > ceiling:
                    break
                if held[start] + onward < best and held[start] + onward + inside + besides <= ceiling:
                    best, origin = held[start] + onward, start
            held.append(best)
            back.append(origin)
        if held[-1] == float("inf"):
            return None
        edges = [len(self.pieces)]
        while edges[-1]:
            edges.append(back[edges[-1]])
        return edges[::-1]
