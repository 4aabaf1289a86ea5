"""The allocator's own account → numbers. TensorFlow's BFC dump in its old and new forms, and what PyTorch says.

TensorFlow writes bins, chunks, the chunks in use by size, and its statistics: raw bytes up to about 2.19, words such as
``200.00MiB`` since (xla/tsl/framework/bfc_allocator.cc).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from fitroom.oom_words import amount
from fitroom.patterns import Pattern


class Chunks(NamedTuple):
    """So many chunks of one size that were in use."""

    number: int
    size: int


@dataclass(frozen=True)
class Arena:
    """What an allocator had, and what it was used for, when it ran out.

    Attributes:
        limit: the most that it may have.
        in_use: what was handed out.
        pool: what it had taken from the device.
        largest_free: the largest block that was free.
        largest_request: the largest that was ever handed out.
        requests: how many requests there were in its life.
        chunks: what was in use, by size.
        holder: the operation that held the most, and how much, where the dump names operations.
        idle: what the allocator had taken and no tensor used, where it says so.
        others: what other processes had of the device.
        total: the whole of the device.
    """

    limit: int | None = None
    in_use: int | None = None
    pool: int | None = None
    largest_free: int | None = None
    largest_request: int | None = None
    requests: int | None = None
    chunks: tuple[Chunks, ...] = ()
    holder: tuple[str, int] | None = None
    idle: int | None = None
    others: int | None = None
    total: int | None = None

    @property
    def fragmentation(self) -> float | None:
        """The share of what is free that is not in the largest free block."""
        if self.in_use is None or self.largest_free is None:
            return None
        free = (self.pool or self.limit or 0) - self.in_use
        if free <= 0 or self.largest_free > free:
            return None
        return (free - self.largest_free) / free

    @property
    def few_hold_most(self) -> Chunks | None:
        """The largest chunks, where some few of them hold more than half of what is in use."""
        if not self.chunks or not self.in_use:
            return None
        largest = max(self.chunks, key=lambda one: one.number * one.size)
        is_most = largest.number <= 4 and largest.number * largest.size > 0.5 * self.in_use
        return largest if is_most and largest.size > 0.1 * self.in_use else None


_SIZE = r"(\d[\d.]*\s?(?:[KMGTP]?i?B|bytes)?)"
_STATS = {
    "limit": Pattern(rf"\bLimit:\s+{_SIZE}"),
    "in_use": Pattern(rf"(?<![A-Za-z])InUse:\s+{_SIZE}"),
    "largest_request": Pattern(rf"\bMaxAllocSize:\s+{_SIZE}"),
    "largest_free": Pattern(rf"\bLargestFreeBlock:\s+{_SIZE}"),
}
_REQUESTS = Pattern(r"\bNumAllocs:\s+(\d+)")
_POOL = Pattern(rf"(?:total_region_allocated_bytes_|Total\s+\w+\s+in\s+pool):\s*{_SIZE}\s+memory_limit_:\s*{_SIZE}")
_SUM = Pattern(rf"Sum\s+Total\s+of\s+in-use\s+chunks:\s+{_SIZE}")
_CHUNKS = Pattern(r"(\d+)\s+Chunks\s+of\s+size\s+(\d+)\s+totalling")
_FREE = Pattern(r"\bFree\s+at\s+(?:0x)?[0-9a-f]+\s+(?:next\s+\d+\s+)?of\s+size\s+(\d+)", re.IGNORECASE)
_HELD = Pattern(r"\bInUse\s+at\s+(?:0x)?[0-9a-f]+\s+of\s+size\s+(\d+)\s+by\s+op\s+(\S+)")
_CUDA = Pattern(r"Free\s+memory/Total\s+memory:\s*(\d+)/(\d+)")


def bfc(text: str) -> Arena | None:
    """What the first dump of TensorFlow's allocator in a text says; None where there is none."""
    found = {name: _amount(pattern, text) for name, pattern in _STATS.items()}
    pool = _POOL.search(text)
    summed = _SUM.search(text)
    if found["limit"] is None and pool is None and summed is None:
        return None
    dump = text[: summed.end()] if summed else text
    free = max((int(one[1]) for one in _FREE.finditer(dump) if len(one[1]) < 19), default=0)
    held: dict[str, int] = {}
    for one in _HELD.finditer(dump):
        held[one[2]] = held.get(one[2], 0) + int(one[1][:18])
    requests = _REQUESTS.search(text)
    cuda = _CUDA.search(text)
    return Arena(
        limit=found["limit"] if found["limit"] is not None else amount(pool[2]) if pool else None,
        in_use=found["in_use"] if found["in_use"] is not None else amount(summed[1]) if summed else None,
        pool=amount(pool[1]) if pool else None,
        largest_free=free or found["largest_free"] or None,
        largest_request=found["largest_request"],
        requests=int(requests[1]) if requests else None,
        chunks=tuple(Chunks(int(one[1][:9]), int(one[2][:18])) for one in _CHUNKS.finditer(dump)),
        holder=max(held.items(), key=lambda one: one[1]) if held else None,
        total=int(cuda[2]) if cuda else None,
    )


_HEADER = Pattern(r"(?:Allocator\s+\(|BFCAllocator dump for\s+)GPU_(\d{1,3})_bfc\b")
_ACCOUNTS = 64  # devices, each of which may have been dumped many times


def accounts(text: str) -> dict[int, Arena]:
    """The accounts of several GPUs' allocators in a text, by the number of the GPU; of each the last one."""
    places = [(int(match[1]), match.start()) for match in _HEADER.finditer(text)][-_ACCOUNTS:]
    ends = [*(start for _, start in places[1:]), len(text)]
    found = [(number, bfc(text[start:end])) for (number, start), end in zip(places, ends, strict=False)]
    return {number: arena for number, arena in found if arena is not None}


# PyTorch up to 2.0: (GPU 0; 10 GiB total capacity; 9 GiB already allocated; 13 MiB free; 9.7 GiB reserved in total …)
# and since: GPU 0 has a total capacity of 23 GiB of which 12 MiB is free. Process 1 has 20 GiB memory in use. …
_TORCH = {
    "limit": Pattern(rf"{_SIZE}\s+total\s+capacity|total\s+capaci?ty\s+of\s+{_SIZE}|max\s+allowed:\s+{_SIZE}"),
    "in_use": Pattern(
        rf"{_SIZE}\s+already\s+allocated|this\s+process\s+has\s+{_SIZE}\s+memory\s+in\s+use|MPS\s+allocated:\s+{_SIZE}"
        rf"|Of\s+the\s+allocated\s+memory\s+{_SIZE}\s+is\s+allocated"
    ),
    "free": Pattern(rf"{_SIZE}\s+free;|of\s+which\s+{_SIZE}\s+is\s+free"),
    "allocated": Pattern(rf"Of\s+the\s+allocated\s+memory\s+{_SIZE}\s+is\s+allocated"),
    "pool": Pattern(rf"{_SIZE}\s+reserved\s+in\s+total"),
    "idle": Pattern(rf"{_SIZE}\s+is\s+reserved\s+by\s+PyTorch\s+but\s+unallocated"),
}
_CONTEXT, _MUCH = 2 << 30, 4 << 30  # bytes: what CUDA may take for itself; what is certainly not CUDA
_TORCH_OTHERS = Pattern(rf"\bProcess\s+\d+\s+has\s+{_SIZE}\s+memory\s+in\s+use")


def torch(text: str) -> Arena | None:
    """What PyTorch says of its memory when it runs out; None where it says nothing."""
    if "otal capac" not in text and "already allocated" not in text and "MPS allocated" not in text:
        return None
    found = {name: _amount(pattern, text) for name, pattern in _TORCH.items()}
    total, in_use, pool, free, own = (found[name] for name in ("limit", "in_use", "pool", "free", "allocated"))
    # In a container PyTorch takes its own process for another: it holds as much as PyTorch has, and CUDA's own.
    listed = [amount(one[1]) or 0 for one in _TORCH_OTHERS.finditer(text)]
    others = sum(one for one in listed if own is None or not own <= one < own + _CONTEXT + (found["idle"] or 0))
    if total and pool is not None and free is not None and total - free - pool > max(0.3 * total, _MUCH):
        others = max(others, total - free - pool)
    return Arena(
        limit=total,
        in_use=in_use,
        pool=pool,
        largest_free=free,
        idle=found["idle"] if pool is None or in_use is None else pool - in_use,
        others=others or None,
        total=total,
    )


# XLA on a TPU: Used 31.28G of 31.25G hbm; Allocation (size=N) would exceed memory (size=M). gRPC: than max (N vs. M)
_LIMITS = (
    Pattern(r"\bUsed\s+[\d.]+\s?[KMGTP]?i?B?\s+of\s+([\d.]+\s?[KMGTP]?)\s+(?:hbm|vmem|smem)"),
    Pattern(r"\bwould\s+exceed\s+memory\s+\(size=(\d+)\)"),
    Pattern(r"\blarger\s+than\s+max\s*\(\d+\s+vs\.?\s+(\d+)\)"),
    Pattern(r"\bexceeds\s+maximum\s+size\s+(\d+):\s*\d"),
    Pattern(r"\btotal\s+memory\s+reported:\s*(\d{6,15})\b"),
)


def limit(text: str) -> int | None:
    """The limit that a message names beside what was wanted."""
    return next((amount(match[1]) for pattern in _LIMITS if (match := pattern.search(text))), None)


def _amount(pattern: Pattern, text: str) -> int | None:
    match = pattern.search(text)
    return amount(next(filter(None, match.groups()))) if match else None
