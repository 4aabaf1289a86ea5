"""A batch that does not fit, from the start to the end of the first epoch: the halving recipe, ours, and the ideal."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench import child
from bench.measure import Ratio, interval

BATCH, FITS, LIMIT, ROUNDS = 512, 128, "200MiB", 3


def run() -> Iterator[Ratio]:
    results = [
        {
            "guarded": child.run("rescue", "guarded", BATCH, limit=LIMIT),
            "halving": child.run("rescue", "halving", BATCH, limit=LIMIT),
            "ideal": child.run("rescue", "ideal", FITS, limit=LIMIT),
        }
        for _ in range(ROUNDS)
    ]
    for one, other in (("guarded", "halving"), ("guarded", "ideal"), ("halving", "ideal")):
        ratios = [result[one]["seconds"] / result[other]["seconds"] for result in results]
        ooms = [statistics.median(result[who]["ooms"] for result in results) for who in (one, other)]
        low, high = interval(ratios)
        note = f" out of memory {ooms[0]:.0f} and {ooms[1]:.0f} times"
        yield Ratio(f"to the end of an epoch: {one} ÷ {other}", statistics.median(ratios), low, high, note=note)
