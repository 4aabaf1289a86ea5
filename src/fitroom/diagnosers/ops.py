"""The operation that a failure names, and what its name tells: the layer, the way back, the optimizer."""

from __future__ import annotations

import re

from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal

_NAME = r"([A-Za-z_.][\w.\-/\\:]*)"
# In the order of how much they tell. TensorFlow words them so from 0.6 to now.
_NODES = (
    # A node that only receives is told where the failure arrived.
    Pattern(
        rf"\[\[(?:\{{\{{function_node\s[^}}]*\}}\}}\s*)?(?:\{{\{{)?[Nn]ode:?\s+{_NAME}(?=[\s\]=}}])(?!\}}*\s*=\s*_(?:Recv|Send))"
    ),
    Pattern(rf"Detected\s+at\s+node\s+['\"]?{_NAME}['\"]?\s+defined"),
    Pattern(rf"(?m:^\s*Node:\s+'{_NAME}')"),
    Pattern(rf"requested\s+by\s+op\s+{_NAME}"),
    Pattern(rf"Caused\s+by\s+op\s+u?['\"]{_NAME}['\"]"),
    Pattern(rf"\{{\{{node\s+{_NAME}\}}\}}"),
    Pattern(rf"in\s+order\s+to\s+run\s+{_NAME}"),
    Pattern(r"\[Op:(?!__)(\w+)\]"),
    Pattern(r"__wrapped__([A-Za-z]\w*?)_(?:device_|N_)"),
    Pattern(r"op_name=\\?\"([^\"\\]{1,200})"),
)
_WRAPPERS = Pattern(
    r"^(?:StatefulPartitionedCall|PartitionedCall|gradient_tape|gradients?|gradients_\d+|training(?:_\d+)?|replica_\d+"
    r"|tower_\d+|loss|cond|while|body|model(?:_\d+)?|sequential(?:_\d+)?|functional(?:_\d+)?|jit\(.*\)|.*/jit)$",
    re.IGNORECASE,
)
_OPTIMIZERS = Pattern(
    r"(?:^|[/_])(?:Adam\w*|Nadam|RMSprop\w*|Adagrad\w*|Adadelta|Adamax|SGD|Momentum|Ftrl|Lion|Lamb|optimizer\w*)(?=$|/)",
    re.I,
)
_OPERATION = Pattern(
    r"^(?:[A-Z][A-Za-z0-9]*(?:_\d+)?|[a-z]+_grad(?:_\d+)?|\w+_grad|strided_slice\w*|embedding_lookup\w*|read|concat\w*|.*LayoutOptimizer)$"
)

_DATA_OPS = Pattern(
    r"Iterator|dataset|decode_?(?:jpeg|png|image|bmp|gif|raw|csv|wav|video|and)|convert_image|ShuffleAnd|Cache"
    r"|(?<![a-z])parse_?(?:example|single|tensor)|ReadFile|from_tensor|map_fn|resize_?image|random_crop|augment",
    re.IGNORECASE,
)


def named(text: str) -> str | None:
    """The operation that asked for memory, as a message names it."""
    for pattern in _NODES:
        if match := pattern.search(text):
            return match[1].rstrip(".:,")
    return None


def is_backward(op: str) -> bool:
    """Whether an operation belongs to the way back."""
    return re.search(r"gradient|_grad\b|Backprop|Grad(?:_\d+)?$", op) is not None


def is_optimizer(op: str) -> bool:
    """Whether an operation belongs to the update, or makes an optimizer's slots."""
    return _OPTIMIZERS.search(op) is not None and not is_backward(op)


def is_initializer(op: str) -> bool:
    """Whether an operation makes a weight."""
    return (
        re.search(r"[Ii]nitializer|/initial_value$|/Assign(?:_\d+)?$|VarHandle|^zeros(?:_\d+)?$", op) is not None
        or re.search(r"^(?:\w+/)?(?:random_uniform|truncated_normal|RandomUniform|TruncatedNormal)", op) is not None
    )


def is_data(op: str) -> bool:
    """Whether an operation belongs to the input pipeline, which is no layer."""
    return _DATA_OPS.search(op) is not None


def layer(op: str | None) -> str | None:
    """The layer of the model that an operation belongs to: ``gradient_tape/sequential/dense/MatMul_1`` → ``dense``."""
    if op is None or "/" not in op or is_optimizer(op) or is_data(op):
        return None
    parts = [part for part in op.split("/") if part and not _WRAPPERS.match(part) and not _OPTIMIZERS.search(part)]
    if "Initializer" in parts:  # dense/kernel/Initializer/random_uniform
        parts = parts[: max(0, parts.index("Initializer") - 1)]
    while parts and _OPERATION.match(parts[-1]) and len(parts) > 1:
        parts.pop()
    if (
        not parts
        or parts[-1].startswith(("cluster_", "Iterator"))
        or (len(parts) == 1 and parts[0] == op.split("/")[-1])
    ):
        return None
    return parts[-1]


def layer_of(op: str | None, layers: tuple[str, ...]) -> str | None:
    """The one of these layers that an operation belongs to. Graphs number names: ``dense_1/MatMul`` is dense's."""
    parts = [part for whole in reversed((op or "").split("/")) for part in (whole, re.sub(r"_\d+$", "", whole))]
    return next((part for part in parts if part in layers), None)


def phase(op: str | None) -> Literal["", "forward", "backward", "update"]:
    """Where in a step an operation is, as far as its name tells."""
    if op is None or is_initializer(op):
        return "update" if op and is_optimizer(op) else ""
    if is_backward(op):
        return "backward"
    return "update" if is_optimizer(op) else "forward" if layer(op) else ""
