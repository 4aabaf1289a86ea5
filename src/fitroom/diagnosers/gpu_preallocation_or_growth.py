"""TensorFlow's own hold on the card, or a limit that the program sets itself."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers import story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.patterns import Pattern
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.GPU_PREALLOCATION_OR_GROWTH
PAGE = page(
    CAUSE,
    "TensorFlow and JAX take most of the card at the start. CUDA's libraries (cuDNN, cuBLAS) then find nothing left "
    "for themselves, or a memory limit in the script is the wall, not the card.",
    "could not create cudnn handle, ALLOC_FAILED, 'Failed to allocate N bytes for new constant'; memory_limit, "
    "per_process_gpu_memory_fraction or XLA_PYTHON_CLIENT_MEM_FRACTION in the script.",
    "memory growth, before the first operation: TF_FORCE_GPU_ALLOW_GROWTH=true; for JAX "
    "XLA_PYTHON_CLIENT_PREALLOCATE=false or a smaller XLA_PYTHON_CLIENT_MEM_FRACTION. Raise or remove the limit that "
    "the script sets.",
)


_SAID = Pattern(
    r"\b(?:TF|tensorflow|keras|JAX|XLA|it)\b[^\n.]{0,30}\b(?:grab|take|allocate|apply for|occup|reserve|map)"
    r"\w*\s[^\n.]{0,30}?\b(?:all|entire|whole|nearly all|most|9\d ?%)[^\n.]{0,20}\b(?:memory|VRAM|GPU|card)",
    re.IGNORECASE,
)


def clues(facts: Facts) -> Iterator[Clue]:
    """A library that could not start, a constant that found no room, a setting in the words."""
    setting = story.setting(facts)
    if facts.resource is Resource.NOT_EXHAUSTION:
        if "CUDA_ERROR_OUT_OF_MEMORY" in facts.words:
            yield Clue(4.0, "the card did not give the first, largest piece; TensorFlow went on with a smaller one")
        return
    if facts.resource is not Resource.GPU_MEMORY:
        return
    if facts.face == "gpu-library-handle" and "CUBLAS_STATUS_NOT_INITIALIZED" not in facts.words:
        yield Clue(4.0, "cuDNN found no room for itself: TensorFlow had taken the card")
    if facts.face == "card-refused-little":
        yield Clue(3.0, "the card refused even a little: somebody had taken all of it in advance")
    if facts.face == "gpu-library-alloc-failed":
        yield Clue(4.0, "a CUDA library found no room for its workspace")
    if facts.face == "xla-new-constant":
        yield Clue(4.0, "XLA found no room for a constant: the memory had been handed out before")
    if facts.face == "gpu-start-failed":
        yield Clue(2.0, "a CUDA library found no room to start: TensorFlow may have taken the card")
    yield from said(facts, _SAID)
    if share := story.own_share(facts):
        given, free = (format_bytes(one) for one in share)
        yield Clue(5.0, f"{free} were free, and TensorFlow was given {given}: the program limits itself")
    if setting:
        yield Clue(4.0, f"the program limits itself: {setting}")


def advice(facts: Facts) -> Iterator[Advice]:
    """Growth, or another limit."""
    if "jax" in facts.words.lower() or facts.face == "xla-new-constant":
        code = "XLA_PYTHON_CLIENT_PREALLOCATE=false python train.py    # or XLA_PYTHON_CLIENT_MEM_FRACTION=.6"
        yield Advice("Have JAX take memory as it needs it", "what it took in advance is free for others", code)
    setting = story.setting(facts)
    if setting:
        yield Advice("Raise or remove the limit that the program sets", f"it says: {setting}")
    yield Advice(
        "Have TensorFlow take memory as it needs it, set before its first operation",
        "leaves room for cuDNN and cuBLAS, which need some hundred MiB",
        "TF_FORCE_GPU_ALLOW_GROWTH=true python train.py",
    )
    yield Advice("Check that nobody else is on the card", "", "nvidia-smi    # or: fitroom env")


def futile(facts: Facts) -> Iterator[str]:
    """Reinstalling."""
    if facts.face == "gpu-library-handle":
        yield "reinstalling CUDA, unless it fails with an empty card, too"
