"""How large may a slice be? From what is known, not by halving.

A real out-of-memory error costs ten seconds, so after the first one the size is learned without another: the batch
is cut so that its first slice is tiny, the memory it took tells how large the next may be, and so on. Every slice
counts towards the batch's gradient, so nothing of this is wasted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Peaks vary by up to ±5 % from run to run (the executor is parallel), small slices underestimate large ones by 3 to
# 21 %, and what is free is rarely in one piece. A slice a little too small costs next to nothing, one too large ten
# seconds.
MARGIN = 1.5
NOISE = 1.05
GROWTH = 4


@dataclass
class Sizes:
    """What is known of slice sizes for one kind of step.

    Attributes:
        size: the size in force; None for the whole batch.
        ceiling: slices stay below it, since something failed.
        points: what slices of a size took, in bytes above what was in use before.
    """

    size: int | None = None
    ceiling: int | None = None
    points: list[tuple[int, int]] = field(default_factory=list)
    learning: bool = False
    began_small: bool = False  # before anything failed

    def failed(self, size: int) -> None:
        """A slice, or a batch, of `size` ran out of memory: learn anew, below it.

        Where the size came from what was learned, that was too hopeful: half of it at most, from then on.
        """
        most = size if self.size is None else size // 2 + 1
        self.ceiling = max(2, min(most, self.ceiling or most))
        self.points = [(one, need) for one, need in self.points if one < self.ceiling]
        self.learn()

    def learn(self) -> None:
        """Find the size by small slices."""
        self.learning = True
        self.began_small = self.ceiling is None
        self.size = 1

    def fits_whole(self, samples: int) -> bool:
        """Whether a batch of so many samples needs no slices, by what was learned, and nothing has failed."""
        is_known = self.began_small and not self.learning and self.ceiling is None
        return is_known and self.size is not None and self.size >= samples

    def seen(self, size: int, need: int) -> None:
        """A slice of `size` fitted and took `need` bytes."""
        self.points = sorted({**dict(self.points), size: max(need, 1)}.items())

    def next(self, samples: int, rest: int, free: int | None, most: int | None = None) -> int:
        """The size of the next slice of a batch of `samples`, of which `rest` are left, with `free` bytes to use.

        `most` is what one more sample takes at most, if that is known. Without a count of bytes (`free` is None) sizes
        are halved, as everyone does.
        """
        if not self.learning:
            return min(self.size or rest, rest)
        limit = max(1, self.ceiling - 1) if self.ceiling else samples
        if free is None:
            self.size, self.learning = max(1, limit // 2) if limit > 1 else 1, False
            return min(self.size, rest)
        if not self.points:
            return 1
        largest = self.points[-1][0]
        fits = max(1, min(self._fitting(free, most), limit))
        # Close enough to what was measured, and on a slope, not on a guess: this is the size from now on.
        if fits == 1 or (fits <= largest * GROWTH and len(self.points) > 1):
            self.size, self.learning = fits, False
        return min(fits, largest * GROWTH, rest)

    def _fitting(self, free: int, most: int | None) -> int:
        """The largest size that should fit `free` bytes."""
        room = free / MARGIN
        (size, need), before = self.points[-1], self.points[-2:-1]
        if before:
            slope = max((need - before[0][1]) / (size - before[0][0]), 1.0)
            return max(1, int(size + (room - need) / slope))
        # No slope yet. Two upper bounds, but for the noise: as if all of it grew with the size, which much of it does
        # not (a convolution's workspace, say), or what a sample takes at most.
        room = free / NOISE
        bounds = [size * room / need] + ([size + (room - need) / most] if most else [])
        return max(1, int(max(bounds)))
