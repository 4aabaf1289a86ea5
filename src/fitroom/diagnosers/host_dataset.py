"""The data do not fit into the host's memory."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers import ops, sizes, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.diagnosers.single_giant_tensor import WHOLE
from fitroom.patterns import Pattern
from fitroom.units import GIB, format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.HOST_DATASET
PAGE = page(
    CAUSE,
    "The host's RAM, or the container's share of it, is full of data: arrays read whole, a copy in float64, one-hot "
    "labels, cache() without a file, a shuffle buffer of full images.",
    "NumPy cannot allocate an array; the kernel, the container or the notebook's host killed the process; TensorFlow "
    "fails on CPU:0 in an operation of the input pipeline; a small tensor fails on the CPU.",
    "read in batches from files (tf.data, a PyDataset over numpy.load(…, mmap_mode='r')); float32 or uint8 instead of "
    "float64; sparse labels instead of one-hot; cache to a file; a smaller shuffle buffer.",
)
_DATA_WORDS = Pattern(
    r"to_categorical|one_?hot|np\.(?:array|concatenate|stack|load|zeros|append)|read_csv|astype|pd\.|pandas|from_tensor_slices"
    r"|load_data|ConvertToEagerTensor|EagerTensor"
)

_CONVERTS = Pattern(r"convert_to_eager_tensor|from_tensor_slices|EagerConst|ConvertToEagerTensor|make_tensor_proto")


def clues(facts: Facts) -> Iterator[Clue]:
    """The host's memory, by an array, a kill, or an operation of the input pipeline."""
    if facts.resource is Resource.NOT_EXHAUSTION:
        if "exceeds 10% of" in facts.words and ((facts.wanted or 0) >= GIB or _DATA_WORDS.search(facts.words)):
            yield Clue(2.0, "much of the host's memory was asked for at once, as data need it")
        return
    if facts.resource is not Resource.HOST_MEMORY or "bfc_cpu" in (facts.allocator or ""):
        if "bfc_cpu" in (facts.allocator or "") and _CONVERTS.search(facts.words[-6000:]):
            yield Clue(3.0, "it failed where data become a tensor")
        return
    if facts.face == "numpy-array":
        yield Clue(5.0, f"NumPy asked for {sizes.shape_words(facts)}")
    elif facts.face in ("notebook-host", "kernel-oom-kill", "sigkill", "windows-commit-limit"):
        yield Clue(3.0, "the host's memory was full, not the card's")
    elif facts.face in ("python-memory-error", "bad-alloc", "torch-cpu", "allocator-ran-out"):
        yield Clue(2.0, "the host had no memory to give")
    yield from said(facts, WHOLE)
    if story.kernel_is_of(facts, "dataset", "iterator_ops", "decode_", "example_parsing", "whole_file_read"):
        yield Clue(3.0, "the input pipeline was at work")
    if facts.op and ops.is_data(facts.op):
        yield Clue(4.0, f"{facts.op} is part of the input pipeline")
    is_activation = len(facts.shape or ()) >= 4 or (len(facts.shape or ()) == 3 and story.leads_with_batch(facts))
    if facts.face == "oom-when-allocating" and not facts.is_giant() and not is_activation:
        yield Clue(2.0, f"{sizes.shape_words(facts)} on the CPU is little: the host was full before")
    if _is_image(facts.shape or ()):
        yield Clue(3.0, f"{sizes.shape_words(facts)} is one image, as it is read")
    if facts.face == "dst-tensor-not-initialized" or _DATA_WORDS.search(facts.words[-6000:]):
        yield Clue(1.5, "it failed where data are prepared")
    if "Filling up shuffle buffer" in facts.before + facts.words:
        yield Clue(2.0, "a shuffle buffer was being filled")


def _is_image(shape: tuple[int, ...]) -> bool:
    """Whether a tensor is one image, with its colours last: what a reader makes, not a layer."""
    image = shape[1:] if shape[:1] == (1,) else shape
    return len(image) == 3 and image[2] in (3, 4) and min(image[:2]) >= 64


def advice(facts: Facts) -> Iterator[Advice]:
    """Stream, shrink, cache to a file."""
    dtype, size = (facts.dtype or "").lower(), facts.tensor_bytes
    if dtype in ("float64", "double") and size:
        yield Advice(
            "Use float32: float64 is twice as large",
            f"{format_bytes(size)} → {format_bytes(size // 2)}",
            "x.astype('float32')",
        )
    cache = Advice("Cache to a file, and shuffle less at a time", "", "dataset.cache('/tmp/cache').shuffle(1000)")
    is_pipeline = facts.op is not None and ops.is_data(facts.op)
    if is_pipeline:
        yield cache
    yield Advice(
        "Read the data in batches instead of whole",
        f"one batch of 32 instead of {facts.shape[0]} rows"
        if facts.shape and facts.shape[0] > 1000
        else "a batch at a time",
        "x = numpy.load('x.npy', mmap_mode='r')    # and a keras.utils.PyDataset that slices it",
    )
    if "to_categorical" in facts.words or ("one" in facts.words and "hot" in facts.words):
        yield Advice("Leave labels as numbers", "one number instead of a row", "loss='sparse_categorical_crossentropy'")
    if not is_pipeline:
        yield cache
    if facts.face in ("kernel-oom-kill", "sigkill", "notebook-host"):
        yield Advice(
            "Have it watched, started again and continued", "trainings go on where they were", "fitroom run train.py"
        )


def futile(facts: Facts) -> Iterator[str]:
    """A smaller model on the GPU."""
    if story.batch(facts) is None:
        yield "a smaller model or a larger GPU: it is the host's memory"
