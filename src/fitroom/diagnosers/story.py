"""What the words around a failure tell beside the failure: sizes, phases, settings, other processes."""

from __future__ import annotations

import re

from fitroom.diagnosers import cards, ops, replicas
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
    r"|\bpredictions?(?:_\w+)?\b|\bpredict\.py|\btest\.(?:\w+\.)?images\b|\btest_images\b|\bevaluating\b"
    r"|\b(?:whole|entire|full|the) test set\b"
    r"|\b(?:run|eval|call)\([^\n]{0,80}(?i:test[_.]?(?:data|set|x|images)|x_test)\b"
)
_TRAINING = Pattern(r"\bfit(?:_generator)?\(|\bin fit\b|train_step|train_function|gradient|minimize|train_op|optimizer")
_NO_HELP = Pattern(
    r"\bbatch[_ -]?sizes?\b[^\n]{0,60}\b(?:did(?:n't| not) help|useless|no (?:effect|difference|matter)|same error)\b"
    r"|\bno matter (?:what|how|which)[^\n]{0,30}\bbatch"
    r"|\beven (?:with|at|for) (?:a )?batch[_ -]?(?:size)? ?(?:of )?=? ?[12]\b",
    re.IGNORECASE,
)
_KERNEL = Pattern(r"OP_REQUIRES failed at (\w+)\.(?:cc|h):\d")
_BUILDING = Pattern(
    r"variables_initializer\(|\brun\(init(?:_op)?\b|\bin (?:add_weight|add_variable|build|_initialize_variables)\b"
    r"|self\.add\(layer\)|\.add_weight\("
)
_FREE = Pattern(r"\bfree\s?[Mm]emory:?\s*([\d.]+\s?[KMGT]?i?B)|\bFree memory:\s*([\d.]+\s?[KMGT]?i?B)")
_TOTAL = Pattern(r"\btotal\s?[Mm]emory:?\s*([\d.]+\s?[KMGT]?i?B)|\bTotal memory:\s*([\d.]+\s?[KMGT]?i?B)")
_PROCESS = Pattern(r"^\|?\s*\d+\s+(?:N/A\s+N/A\s+)?\d+\s+(?:C|G|C\+G)\s+\S.*?(\d+)\s?MiB\s*\|?\s*$", re.MULTILINE)
_SETTING = Pattern(
    r"\bmemory_limit\s*=\s*(\d+)|(?i:\w{0,30}gpu_memory_fraction)\s*[=:]?\s*([\d.]+)|MEM_FRACTION\s*=\s*['\"]?([\d.]+)"
    r"|\b(allow[_-]growth|set_memory_growth|XLA_PYTHON_CLIENT_PREALLOCATE)\b"
)


def batch(facts: Facts) -> int | None:
    """The batch: as the words have it, else the leading axis where it looks like one."""
    if facts.attempt is not None and facts.attempt.at_once:
        return facts.attempt.at_once
    if facts.footprint is not None:
        return facts.footprint.batch_size
    sizes = batches(facts)
    if facts.shape and sizes and facts.shape[0] in sizes:
        return facts.shape[0]
    if facts.shape and (leads_with_batch(facts) or (facts.shape[0] == 1 and len(facts.shape) >= 4)):
        return facts.shape[0]
    return sizes[-1] if sizes else None


def batches(facts: Facts) -> list[int]:
    """The sizes of batches that the words name, in their order."""
    said = _BATCH.findall(facts.words) or _BATCH.findall(facts.before[-20_000:])
    return [int(one) for one in said if 0 < int(one) <= _MAX_BATCH]


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
    # A vocabulary, or what Flatten gives, with a width that somebody chose. Round numbers of rows are samples.
    return max(shape) % 1000 != 0 and not facts.is_giant() and any(min(shape) % one == 0 for one in (10, 16, 25))


def is_built(facts: Facts) -> bool:
    """Whether it happened while a model was being made, or its variables were."""
    return _BUILDING.search(facts.words[-12_000:]) is not None


def own_share(facts: Facts) -> tuple[int, int] | None:
    """What TensorFlow was given of the card, and what was free, where that is far less: the program limits itself."""
    started, given = free_at_start(facts), card(facts)
    return (given, started[0]) if started and given and given < 0.6 * started[0] else None


def kernel_is_of(facts: Facts, *files: str) -> bool:
    """Whether the code that asked for memory is in one of these files of TensorFlow's, as it says."""
    match = _KERNEL.search(facts.words)
    return match is not None and any(name in match[1] for name in files)


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
    if facts.attempt is not None:
        return not facts.attempt.trains
    if facts.footprint is not None:
        return facts.footprint.kind != "training"
    words = facts.words[-12_000:]
    return bool(_INFERENCE.search(words)) and not _TRAINING.search(f"{words} {facts.op or ''}")


def free_at_start(facts: Facts) -> tuple[int, int] | None:
    """What was free on the card when the program started, and how large the card is."""
    free, total = (_first(pattern, facts) for pattern in (_FREE, _TOTAL))
    return (free, total) if free is not None and total else None


def card(facts: Facts) -> int | None:
    """How much of the card TensorFlow got when it started: of the one that failed, where that is known."""
    given = cards.given(facts)
    number = replicas.index(facts.device)
    return next((one.given for one in given if one.number == number), given[0].given if given else None)


def others(facts: Facts) -> int:
    """What other processes held of the card, as the words have it."""
    listed = sum(int(one) * 2**20 for one in _PROCESS.findall(facts.words + facts.before[-20_000:]) if len(one) < 7)
    return (facts.arena.others or 0) if facts.arena and facts.arena.others else listed


def batch_is_not_it(facts: Facts) -> bool:
    """Whether somebody says that another batch size changes nothing."""
    return _NO_HELP.search(facts.words[-12_000:]) is not None


def setting(facts: Facts) -> str | None:
    """The setting by which the program limits its own memory."""
    match = _SETTING.search(facts.words) or _SETTING.search(facts.before)
    return match[0] if match else None


def _first(pattern: Pattern, facts: Facts) -> int | None:
    match = pattern.search(facts.before) or pattern.search(facts.words)
    return amount(next(filter(None, match.groups()))) if match else None
