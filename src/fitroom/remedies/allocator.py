"""The allocator that hands memory out."""

from __future__ import annotations

import os

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "allocator"
WRITTEN = "allocator=growth, cuda_malloc_async or trim"
GROWTH, ASYNC, TRIM = "growth", "cuda_malloc_async", "trim"
# What a new process is told.
ENVIRONMENT = {
    GROWTH: {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    ASYNC: {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
    TRIM: {},
}

PAGE = Page(
    NAME,
    "remedy",
    "Another way to hand memory out",
    "What it does, by its setting. growth: TensorFlow takes a GPU's memory as it needs it, not all of it at the start, "
    "so that other processes have some. cuda_malloc_async: CUDA's own pool instead of TensorFlow's allocator; where "
    "memory is free, but in pieces that are too small, it puts them together. trim: what C's allocator keeps of memory "
    "that was freed on the host is given back after every epoch.\n\n"
    "Does it keep the math? Yes, to the bit.\n\n"
    "What it costs: next to nothing. growth and cuda_malloc_async are read when TensorFlow starts, so they need a new "
    "process: fitroom run sets them.\n\n"
    "How to choose it by hand: fitroom run --plan allocator=cuda_malloc_async train.py; in a running process "
    'fitroom.guard(model, plan="allocator=trim").',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(setting) if setting in ENVIRONMENT else None


def remedy(setting: str) -> Remedy:
    """`allocator` with this setting."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, setting, needs_restart=bool(ENVIRONMENT[setting]))


def is_set(setting: str) -> bool:
    """Whether this process was started with it."""
    return all(os.environ.get(name) == value for name, value in ENVIRONMENT[setting].items())
