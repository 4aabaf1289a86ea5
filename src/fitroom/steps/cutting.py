"""Where to cut a model into parts, and which of them to compute again: the most saving for the least time.

A model's call is a row of pieces, in the order in which they run. Plain training keeps, from the way forth to the way
back, what every piece's gradient needs. A part that is computed again keeps its inputs only; what its pieces keep comes
to life once more on the way back, while the other parts' is not there. So the peak is

    inputs of the parts that are computed again + what the others keep + the largest of the parts

and the last part is never worth computing again: the way back starts there.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_CEILINGS = 12  # how many sizes of the largest part are tried


@dataclass(frozen=True)
class Piece:
    """One layer's call, or any other step of the computation.

    Attributes:
        makes: the tensors that leave it, by number, with their bytes.
        uses: the numbers of the tensors that it takes.
        keeps: what the gradient needs of what is made here, by number, with its bytes: tensors, or what is inside.
        work: about how many operations it takes.
    """

    makes: dict[int, int]
    uses: frozenset[int]
    keeps: dict[int, int]
    work: float


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
        kept: bytes of activations at the peak.
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


@dataclass
class Row:
    """Pieces in their order, and what cutting them comes to."""

    pieces: Sequence[Piece]
    total_work: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_use = {one: index for index, piece in enumerate(self.pieces) for one in piece.uses}
        self._made_in = {one: index for index, piece in enumerate(self.pieces) for one in piece.makes}
        self._bytes = {one: size for piece in self.pieces for one, size in piece.makes.items()}
        self._inside = [0, *itertools.accumulate(sum(piece.keeps.values()) for piece in self.pieces)]
        self._work = [0.0, *itertools.accumulate(piece.work for piece in self.pieces)]
        self.total_work = self._work[-1] or 1.0

    def candidates(self) -> list[Cut]:
        """Cuts with ever larger parts, all of them recomputed but for the last."""
        found = [self.cut([(0, len(self.pieces))], set())]
        smallest = max(max(sum(piece.keeps.values()) for piece in self.pieces), 1)
        step = (max(self._inside[-1], smallest) / smallest) ** (1 / (_CEILINGS - 1))
        for number in range(_CEILINGS):
            spans = list(itertools.pairwise(self._edges(smallest * step**number)))
            found.append(self.cut(spans, set(spans[:-1])))
        return found

    def relieved(self, cut: Cut, goal: int) -> Cut:
        """The same parts, as many as can be kept after all, those first that cost most for what they save."""
        spans = [(part.start, part.stop) for part in cut.parts]
        again = {(part.start, part.stop) for part in cut.recomputed}
        best = cut
        for span in sorted(again, key=lambda one: self._saved(*one) / max(self._worked(*one), 1.0)):
            tried = self.cut(spans, again - {span})
            if tried.kept <= goal:
                best, again = tried, again - {span}
        return best

    def cut(self, spans: list[tuple[int, int]], again: set[tuple[int, int]]) -> Cut:
        """What it comes to."""
        held: dict[int, int] = {}
        for start, stop in spans:
            if (start, stop) in again:
                held.update((one, self._bytes.get(one, 0)) for one in self._inputs(start, stop))
                held.update(self._needed_behind(start, stop))
            else:
                for piece in self.pieces[start:stop]:
                    held.update(piece.keeps)
        back = [
            sum(size for piece in self.pieces[start:stop] for one, size in piece.keeps.items() if one not in held)
            for start, stop in again
        ]
        return Cut(
            parts=tuple(Part(start, stop, (start, stop) in again) for start, stop in spans),
            kept=sum(held.values()) + max(back, default=0),
            work=sum(self._worked(*span) for span in again) / self.total_work,
        )

    def _inputs(self, start: int, stop: int) -> set[int]:
        """The tensors that pieces from `start` to `stop` take from before."""
        used = {one for piece in self.pieces[start:stop] for one in piece.uses}
        return {one for one in used if self._made_in.get(one, -1) < start}

    def _needed_behind(self, start: int, stop: int) -> dict[int, int]:
        """What is kept here and used behind: it is there for that, and not made again."""
        kept = [pair for piece in self.pieces[start:stop] for pair in piece.keeps.items()]
        return {one: size for one, size in kept if self._last_use.get(one, -1) >= stop}

    def _saved(self, start: int, stop: int) -> int:
        return self._inside[stop] - self._inside[start]

    def _worked(self, start: int, stop: int) -> float:
        return self._work[stop] - self._work[start]

    def _edges(self, ceiling: float) -> list[int]:
        """Parts that keep at most `ceiling` inside, with the fewest bytes going into them."""
        best, back = [0.0], [0]
        for stop in range(1, len(self.pieces) + 1):
            used: set[int] = set()
            options: list[tuple[float, int]] = []
            for start in range(stop - 1, -1, -1):
                if options and self._saved(start, stop) > ceiling:
                    break
                used |= self.pieces[start].uses
                taken = sum(self._bytes.get(one, 0) for one in used if self._made_in.get(one, -1) < start)
                options.append((best[start] + taken, start))
            value, start = min(options)
            best.append(value)
            back.append(start)
        edges = [len(self.pieces)]
        while edges[-1]:
            edges.append(back[edges[-1]])
        return edges[::-1]
