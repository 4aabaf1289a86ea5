"""What the words around a failure tell beside the failure: sizes, phases, settings, other processes."""

from __future__ import annotations

import re

from fitroom.diagnosers import ops
from fitroom.oom_words import amount
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.facts import Facts


_BATCH = Pattern(r"\bbatch(?:[_ -]?size)?\s*(?:of|is|to|[=:])?\s*['\"]?(\d{1,6})\b(?!\.\d|/)", re.IGNORECASE)
_MAX_BATCH = 16_384
_INFERENCE = Pattern(
    r"\b(?:predict|evaluate|inference|infer|generate|embed)(?:_\w+)?\(|\.eval\(|\bin eval\b"
    r"|\bin (?:predict|evaluate)\b|predict_function|test_function|predict_step|test_step|(?i:\binferenc(?:e|ing)\b)"
    r"|\b(?:during|while|when) (?:testing|evaluation|prediction)\b|\bat (?:test|predict|inference) time\b"
    r"|\bpredictions?\b|\bpredict\.py|\btest\.(?:\w+\.)?images\b|\btest_images\b|\bevaluating\b|\bwhole test set\b"
)
_TRAINING = Pattern(r"\bfit(?:_generator)?\(|\bin fit\b|train_step|train_function|gradient|minimize|train_op|optimizer")
_KERNEL = Pattern(r"OP_REQUIRES failed at (\w+)\.(?:cc|h):\d")
_BUILDING = Pattern(
    r"variables_initializer\(|\brun\(init(?:_op)?\b|\bin (?:add_weight|add_variable|build|_initialize_variables)\b"
    r"|self\.add\(layer\)|\.add_weight\("
)
_EPOCH = Pattern(r"\b[Ee]poch:?\s+(\d+)\s*(?:/|of\b)")
_FUNCTION = Pattern(r"\[Op:__inference_\w*?_(\d+)\]")
_LOOP = Pattern(r"\bin (?:a |the )?(?:for )?loop\b")
_NTH = Pattern(r"\b(\d+)(?:st|nd|rd|th) (?:\w+ )?(?:trial|candidate|model|solution|iteration|fold|epoch|run|episode)\b")
_WHILE = Pattern(r"\bafter (?:running |training )?(?:for )?(?:a while|some time|several (?:hours|epochs|days))\b")
_ROUND = Pattern(r"\b(?:[Tt]rial|[Ff]old|[Rr]un|[Ii]teration|[Ee]pisode|[Mm]odel)\s*#?:?\s*(\d+)\b")
_NUMBERED = Pattern(r"\b(?:sequential|model|functional|training)_(\d+)/")
_AFTER_ROUNDS = Pattern(
    r"\bafter\s+(?:about\s+|around\s+|some\s+|~\s?)?(\d+)(?:/\d+)?k?\s*"
    r"(?:trials|folds|runs|models|episodes|iterations|epochs|hours|hrs|days)\b"
)
_FREE = Pattern(r"\bfree\s?[Mm]emory:?\s*([\d.]+\s?[KMGT]?i?B)|\bFree memory:\s*([\d.]+\s?[KMGT]?i?B)")
_TOTAL = Pattern(r"\btotal\s?[Mm]emory:?\s*([\d.]+\s?[KMGT]?i?B)|\bTotal memory:\s*([\d.]+\s?[KMGT]?i?B)")
_CREATED = Pattern(r"\b[Cc]reated\s+(?:TensorFlow\s+)?device\s[^\n]{0,120}?\bwith\s+(\d+)\s+MB\s+memory")
_PROCESS = Pattern(r"^\|?\s*\d+\s+(?:N/A\s+N/A\s+)?\d+\s+(?:C|G|C\+G)\s+\S.*?(\d+)\s?MiB\s*\|?\s*$", re.MULTILINE)
_SETTING = Pattern(
    r"\bmemory_limit\s*=\s*(\d+)|(?i:\w{0,30}gpu_memory_fraction)\s*[=:]?\s*([\d.]+)|MEM_FRACTION\s*=\s*['\"]?([\d.]+)"
    r"|\b(allow_growth|set_memory_growth|XLA_PYTHON_CLIENT_PREALLOCATE)\b"
)
_RETRACING = Pattern(r"triggered tf\.function retracing|\bretracing\b")


def batch(facts: Facts) -> int | None:
    """The batch: as the words have it, else the leading axis where it looks like one."""
    if facts.footprint is not None:
        return facts.footprint.batch_size
    said = _BATCH.findall(facts.words) or _BATCH.findall(facts.before[-20_000:])
    sizes = [int(one) for one in said if 0 < int(one) <= _MAX_BATCH]
    if facts.shape and sizes and facts.shape[0] in sizes:
        return facts.shape[0]
    if facts.shape and (leads_with_batch(facts) or (facts.shape[0] == 1 and len(facts.shape) >= 4)):
        return facts.shape[0]
    return sizes[-1] if sizes else None


def leads_with_batch(facts: Facts) -> bool:
    """Whether the leading axis of the tensor looks like a batch: not a kernel's, not as long as a dataset."""
    shape = facts.shape
    if not shape or len(shape) < 2 or not 1 < shape[0] <= _MAX_BATCH or is_weight(facts):
        return False
    if len(shape) == 3 and shape[0] >= 256 and shape[0] in shape[1:]:
        return False  # every pair, or a cube
    return len(shape) >= 3 or shape[0] <= 4096


def is_weight(facts: Facts) -> bool:
    """Whether the tensor is a weight, its gradient, or something as large: by the operation's name, or its shape."""
    op, shape = facts.op or "", facts.shape or ()
    if (
        ops.is_optimizer(op)
        or ops.is_initializer(op)
        or re.search(r"BackpropFilter(?:V2)?(?:_\d+)?$|[Ee]mbedding\w*/(?:read|Assign)", op)
    ):
        return True
    if len(shape) in (4, 5) and max(shape[:2]) <= 11 and shape[0] == shape[1] and min(shape[-2:]) >= 16:
        return True  # a kernel of a convolution: 3, 3, in, out
    if len(shape) != 2 or min(shape) < 32 or max(shape) <= _MAX_BATCH or facts.face == "numpy-array":
        return False
    if op:
        return shape[0] > shape[1] and (ops.is_backward(op) or _makes_weights(op))
    # A vocabulary, or what Flatten gives. A round number of rows is somebody's choice of samples.
    return max(shape) % 1000 != 0 and not facts.is_giant()


def is_built(facts: Facts) -> bool:
    """Whether it happened while a model was being made, or its variables were."""
    return _BUILDING.search(facts.words[-12_000:]) is not None


def graphs(facts: Facts) -> int:
    """How many operations the process had made when it made this function: TensorFlow numbers it so."""
    found = _FUNCTION.findall(facts.words[-20_000:])
    return max((int(one) for one in found if len(one) < 10), default=0)


def is_growing(facts: Facts) -> bool:
    """Whether it had gone well for a while, by what was said before."""
    return epochs(facts) >= 1 or rounds(facts) >= 2


def own_share(facts: Facts) -> tuple[int, int] | None:
    """What TensorFlow was given of the card, and what was free, where that is far less: the program limits itself."""
    started, given = free_at_start(facts), card(facts)
    return (given, started[0]) if started and given and given < 0.6 * started[0] else None


def kernel_is_of(facts: Facts, *files: str) -> bool:
    """Whether the code that asked for memory is in one of these files of TensorFlow's, as it says."""
    match = _KERNEL.search(facts.words)
    return match is not None and any(name in match[1] for name in files)


def node_number(facts: Facts) -> int:
    """The number that TensorFlow gave the operation: 2518 of `sub_2518`, where so many came before it."""
    match = re.match(r"[A-Za-z]+_(\d{1,7})$", facts.op or "")
    return int(match[1]) if match else 0


def _makes_weights(op: str) -> bool:
    return op in (
        "AddV2",
        "Add",
        "Mul",
        "RandomUniform",
        "Fill",
        "RandomStandardNormal",
        "TruncatedNormal",
        "VarHandleOp",
    )


def is_flattened(facts: Facts) -> bool:
    """Whether the leading axis looks like samples times something, folded into one: 4096 rays × 1024 points."""
    shape = facts.shape or ()
    is_long = 0 < len(shape) <= 3 and shape[0] > _MAX_BATCH and shape[0] % 256 == 0
    is_it = facts.face == "oom-when-allocating"  # others name some buffer
    return is_long and is_it and not is_weight(facts) and not facts.is_giant()


def is_inference(facts: Facts) -> bool:
    """Whether it happened in prediction or evaluation."""
    if facts.footprint is not None:
        return facts.footprint.kind != "training"
    words = facts.words[-12_000:]
    return bool(_INFERENCE.search(words)) and not _TRAINING.search(f"{words} {facts.op or ''}")


def epochs(facts: Facts) -> int:
    """How many epochs had been gone through."""
    found = [int(one) for one in _EPOCH.findall(facts.before[-200_000:] + facts.words) if len(one) < 7]
    return max(found, default=1) - 1


def rounds(facts: Facts) -> int:
    """How many trials, folds or iterations of some loop had been gone through."""
    found = {int(one) for one in _ROUND.findall(facts.before[-200_000:] + facts.words) if len(one) < 7}
    words = facts.before[-20_000:] + facts.words
    said = [int(one) for pattern in (_AFTER_ROUNDS, _NTH) for one in pattern.findall(words) if len(one) < 7]
    return max(said or found) if said or len(found) > 1 or (found and max(found) > 2) else 0


def is_in_loop(facts: Facts) -> bool:
    """Whether somebody says that it happens in a loop, or after a while."""
    return any(pattern.search(facts.words[-12_000:]) for pattern in (_LOOP, _WHILE))


def models(facts: Facts) -> int:
    """How many models the process had made, by how Keras numbers their names."""
    return max((int(one) for one in _NUMBERED.findall(facts.op or "") if len(one) < 5), default=0)


def free_at_start(facts: Facts) -> tuple[int, int] | None:
    """What was free on the card when the program started, and how large the card is."""
    free, total = (_first(pattern, facts) for pattern in (_FREE, _TOTAL))
    return (free, total) if free is not None and total else None


def card(facts: Facts) -> int | None:
    """How much of the card TensorFlow got when it started."""
    match = _CREATED.search(facts.before) or _CREATED.search(facts.words)
    return int(match[1]) * 2**20 if match else None


def others(facts: Facts) -> int:
    """What other processes held of the card, as the words have it."""
    listed = sum(int(one) * 2**20 for one in _PROCESS.findall(facts.words + facts.before[-20_000:]) if len(one) < 7)
    return (facts.arena.others or 0) if facts.arena and facts.arena.others else listed


def setting(facts: Facts) -> str | None:
    """The setting by which the program limits its own memory."""
    match = _SETTING.search(facts.words) or _SETTING.search(facts.before)
    return match[0] if match else None


def retracings(facts: Facts) -> int:
    """How often TensorFlow warned of retracing."""
    return len(_RETRACING.findall(facts.before + facts.words))


def _first(pattern: Pattern, facts: Facts) -> int | None:
    match = pattern.search(facts.before) or pattern.search(facts.words)
    return amount(next(filter(None, match.groups()))) if match else None
