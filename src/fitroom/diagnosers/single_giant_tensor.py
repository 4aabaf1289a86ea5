"""One tensor is larger than the memory, or takes most of it."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause
from fitroom.diagnosers import sizes, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.oom_words import amount
from fitroom.patterns import Pattern
from fitroom.units import GIB, MIB, format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.SINGLE_GIANT_TENSOR
PAGE = page(
    CAUSE,
    "A single tensor is larger than the memory, or nearly: every pair of N points, a dense layer on a flattened image, "
    "a one-hot coding of a large vocabulary, the whole dataset in one piece.",
    "the product of the axes is gigabytes; the leading axis is far too long for a batch (400 000 × 40 × 40); two axes "
    "are the same long length; or some few chunks in the allocator's dump hold most of what is in use.",
    "do not make it: go through it in pieces (tf.map_fn, a loop over rows), compute pairs block by block, look up "
    "instead of one-hot, pool before Flatten. Where the long axis is the samples, feed them in batches.",
)
_ALONE = Pattern(
    r"executable_name='jit_(?:_?(?:concatenate|stack|broadcast_in_dim|dot_general|einsum|convert_element_type|iota|copy"
    r"|transpose|reshape|gather|scatter|multiply|add|subtract|where|pad|matmul|zeros|ones|take|squeeze|tile|repeat))'"
)

WHOLE = Pattern(
    r"\b(?:whole|entire|full|complete|all (?:of )?(?:the|my|your)) (?:training |input |test )?"
    r"(?:data(?:set)?|arrays?|container|matrix|tensor|sequence|corpus|images)\b(?!\s*(?:size|path|name))",
    re.IGNORECASE,
)


def clues(facts: Facts) -> Iterator[Clue]:
    """A size that no memory has, axes too long for a batch, few chunks that hold everything."""
    if not facts.resource.is_memory:
        return
    shape, size = facts.shape or (), facts.tensor_bytes or 0
    if _is_copied_whole(facts):
        yield Clue(1.8 + 4.0 * story.batch_is_not_it(facts), "data goes to the device in one piece")
    if facts.on_card:
        yield from said(facts, WHOLE)
    if is_one_operation(facts):
        yield Clue(3.2, "JAX ran one operation by itself, not a step: what it makes is too large")
    elif is_round_block(facts):
        yield Clue(3.2, f"XLA asked for {format_bytes(size)} to the dot: one tensor, not the sum of a step")
    is_batch = (story.leads_with_batch(facts) and len(shape) >= 4) or story.is_flattened(facts) or shape[:1] == (1,)
    if shape and facts.is_giant() and facts.face != "numpy-array":
        yield Clue(2.0 if is_batch else 4.0, f"it alone is {format_bytes(size)}")
    if shape and size >= GIB and not is_batch and facts.face != "numpy-array":
        yield Clue(2.0, "its leading axis is no batch")
    if shape[:1] == (1,) and len(shape) >= 4 and size >= GIB:
        yield Clue(4.0, f"one sample makes a tensor of {format_bytes(size)}")
    long = [axis for axis in shape if axis >= 400]
    if len(long) > len(set(long)) and size >= 256 * MIB and len(shape) <= 3:
        # A matrix of NumPy's with two equal sides is no dataset.
        is_square = facts.face == "numpy-array" and len(shape) == 2
        yield Clue(7.0 if is_square else 3.0, "it has the same long axis twice: every pair")
    elif len(shape) == 4 and shape[2] == shape[3] >= 2000 and size >= GIB:
        yield Clue(3.0, f"scores of {shape[2]} places of a sequence with each other: every pair")
    is_data = bool(shape) and shape[0] > (100_000 if len(shape) < 4 else 16_384) and not is_batch
    if is_data and size >= 512 * MIB and facts.face != "numpy-array":
        points = 2.5 if len(shape) >= 3 or (story.is_weight(facts) and facts.op) else 0.5
        yield Clue(points, f"its leading axis, {shape[0]}, is too long for a batch")
    if facts.face == "numpy-array" and len(shape) in (1, 3) and size >= 128 * GIB:
        yield Clue(6.0, f"no host has {format_bytes(size)} to spare: something multiplied")
    if facts.face == "numpy-array" and len(shape) == 2 and min(shape) >= 10_000 and max(shape) < 3 * min(shape):
        yield Clue(6.0, "both of its axes are long: no samples with their features")
    if not shape and facts.face in ("torch-cpu", "torch-cuda") and _is_too_large_for_torch(facts):
        yield Clue(3.0, f"PyTorch asked for {format_bytes(size)} at once")
    largest = _largest_buffer(facts)
    if largest and facts.wanted and largest > 0.5 * facts.wanted:
        yield Clue(4.0, f"one buffer of the program is {format_bytes(largest)}")
    held = facts.arena.few_hold_most if facts.arena else None
    if held and held.size > 2 * size and _is_full(facts):
        words = "chunk holds" if held.number == 1 else "chunks hold"
        total = format_bytes(held.number * held.size)
        yield Clue(5.0, f"{held.number} {words} {total} of what is in use; the tensor that failed is the victim")


def _is_full(facts: Facts) -> bool:
    """Whether the arena was full, so that who holds it is to blame."""
    arena = facts.arena
    return arena is None or not arena.limit or (arena.in_use or 0) > 0.7 * arena.limit


# XLA lists what the program needs, the largest first. What comes in or goes out is listed by its sum, in another place.
_BUFFER = Pattern(
    r"Largest program allocations in hbm:\s+1\. Size:\s*([\d.]+\s?[KMGT]?i?B?)\b"
    r"|byte size of input/output arguments \((\d{4,15})\) exceeds the base limit"
)


def _largest_buffer(facts: Facts) -> int | None:
    """The largest buffer of a program that XLA compiled, where it says so."""
    match = _BUFFER.search(facts.before + facts.words)
    return amount(next(filter(None, match.groups()))) if match else None


def _is_too_large_for_torch(facts: Facts) -> bool:
    """Whether PyTorch, which asks for tensors one by one, asked for more than there is."""
    return facts.is_giant() if facts.limit is None else (facts.tensor_bytes or 0) > facts.limit


def _is_copied_whole(facts: Facts) -> bool:
    """Whether data was on its way to the device, in an operation of its own."""
    return (facts.op or "").lstrip("_") == "EagerConst" and facts.on_card and not facts.shape


def is_one_operation(facts: Facts) -> bool:
    """Whether the program that XLA ran is a single operation, called outside of any jit."""
    return facts.face == "xla-out-of-memory" and _ALONE.search(facts.words) is not None


def is_round_block(facts: Facts) -> bool:
    """Whether XLA asked for many GiB to the dot: the axes of tensors are round, sums of temporaries are not."""
    size = facts.wanted or 0
    return facts.face == "xla-out-of-memory" and size > 32 * GIB and abs(size - round(size / GIB) * GIB) < size / 1000


def advice(facts: Facts) -> Iterator[Advice]:
    """In pieces, or not at all."""
    shape = facts.shape or ()
    held = facts.arena.few_hold_most if facts.arena else None
    if held and held.size > 2 * (facts.tensor_bytes or 0):
        yield Advice(
            f"Find what is {format_bytes(held.size)} large and alive all the time: data put on the device, a cache",
            f"{format_bytes(held.number * held.size)} come free; what failed needs {sizes.shape_words(facts)}",
            'with tf.device("CPU:0"): dataset = tf.data.Dataset.from_tensor_slices(…).batch(32)',
        )
    elif _is_copied_whole(facts):
        yield Advice(
            "Leave the data on the host, and copy a batch at a time",
            "fit puts whole arrays on the device; a batch is a small part of them",
            'with tf.device("CPU:0"): dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)',
        )
    elif story.is_weight(facts) or (len(shape) == 2 and facts.op and "MatMul" in facts.op):
        yield Advice(
            f"The kernel{f' of {facts.layer}' if facts.layer else ''} alone is {sizes.shape_words(facts)}: "
            "pool before you flatten, or take fewer units",
            f"with its gradient and Adam's slots {format_bytes(4 * (facts.tensor_bytes or 0))}",
            "x = keras.layers.GlobalAveragePooling2D()(x)    # instead of Flatten()",
        )
    elif shape:
        row = (facts.tensor_bytes or 0) // max(1, shape[0])
        yield Advice(
            "Make it in pieces along its first axis",
            f"{sizes.shape_words(facts)} at once; {format_bytes(row)} for one of {shape[0]}",
            "for start in range(0, n, 1024): part = f(x[start : start + 1024])",
        )
    yield Advice("Half the precision", "half of the bytes", "tf.cast(x, tf.float16)    # float32 where it is float64")


def futile(facts: Facts) -> Iterator[str]:
    """What does not make it smaller."""
    if not story.leads_with_batch(facts):
        yield "a smaller batch_size in fit, unless the long axis is the batch"
    if facts.limit and (facts.tensor_bytes or 0) > facts.limit:
        yield f"freeing other memory: it is larger than all of the {format_bytes(facts.limit)} there are"
