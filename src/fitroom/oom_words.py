"""What the words of an out-of-memory message tell: where, how much, of what shape and type.

Text in, numbers and names out. Messages are read as the runtimes' sources word them; any space in them may have become
a line break, because people paste wrapped text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from fitroom.core import Resource
from fitroom.errors import UnitError
from fitroom.patterns import Pattern
from fitroom.units import parse_bytes


@dataclass(frozen=True)
class Shape:
    """A tensor that is named: its axes, and its type as the message words it, if it does."""

    axes: tuple[int, ...]
    dtype: str | None


_KINDS = {"G": Resource.GPU_MEMORY, "C": Resource.HOST_MEMORY, "T": Resource.TPU_MEMORY}
_DEVICE = Pattern(
    r"(?:\bon\s+|_device_|;[0-9a-f]{6,20};|(?<!recv)(?<!send)_device=\s*\\?\"|\bto\s+|\bfrom\s+|[Cc]reat(?:ed|ing)\s+(?:TensorFlow\s+)?device\s+\()"
    r"(/?(?:job:[\w.\-/:]*?/)?(?:device:)?(?:XLA_)?([GCT]PU):\d+)(?![\w/])",
    re.IGNORECASE,
)
_COPY = Pattern(r"\bcopying\b|Dst tensor is not initialized", re.IGNORECASE)
_ALLOCATOR = Pattern(
    r"\bby\s+allocator\s+([\w.]*\w)|\bAllocator\s+\(([\w.]+)\)|BFCAllocator dump for\s+([\w.]+)"
    r"|\b(\w+)\s+cuMemAllocAsync\s+failed",
    re.IGNORECASE,
)

_KNOWN = Pattern(r"GPU_\d+_bfc")  # whatever was pasted right behind it


def device(text: str) -> tuple[str, Resource] | None:
    """The device that had no room, and the memory that it has. A copy names its source first."""
    found = list(_DEVICE.finditer(text))
    if not found:
        return None
    place = next((one for one in found if not one[0].lower().startswith("creat")), found[0])
    if _COPY.search(text):
        place = next((one for one in found if one[0].lower().startswith("to")), found[-1])
    return place[1], _KINDS[place[2][0].upper()]


def allocator(text: str) -> str | None:
    """The name of the allocator that had no room."""
    match = _ALLOCATOR.search(text)
    if match is None:
        return None
    name = next(filter(None, match.groups()))
    known = _KNOWN.match(name)
    return known[0] if known else name


def place(text: str) -> tuple[Resource | None, str | None]:
    """The memory and the device that a message speaks of, if it does; an allocator's name tells the memory too."""
    if named := device(text):
        return named[1], named[0]
    if name := allocator(text):
        on_host = "host" in name.lower() or "cpu" in name.lower()
        return (Resource.HOST_MEMORY if on_host else Resource.GPU_MEMORY), None
    return None, None


# OOM when allocating tensor with shape[2,3] and type float (core/framework/op_kernel.cc); NumPy's
# "with shape (2, 3) and data type float64"; XLA's "shape = 'f32[2,3]{…}'".
_SHAPE = Pattern(
    r"\bshaped?\s*[\[(]\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*[\])](?:[\s`'\"]*and\s+(?:data\s+)?type\s+<?([A-Za-z]\w*))?"
)
_XLA_SHAPE = Pattern(r"\b[Ss]hape\s*[=:]\s*'?\(?((?:pred|bf|[fsuc])\d{0,3})\[(\d+(?:,\d+)*)\]")
# TensorFlow 1 writes a constant's value into the node.
_CONSTANT = Pattern(r"=\s*Const\[[^\n]{0,200}?Tensor<type:\s*(\w+)\s+shape:\s*\[(\d+(?:,\d+)*)\]")
_NODE = Pattern(r"\[\[[Nn]ode:?\s[^\]\[]{0,400}\[((?:[^\]]|(?<=[\"\w])\](?=,)){0,400})")
_NODE_TYPE = Pattern(r"\b(?:DstT|dtype)=DT_(\w+)"), Pattern(r"\bT=DT_(\w+)")  # of what comes out; of what goes in
_SIZES = {
    "half": 2, "bfloat16": 2, "float": 4, "double": 8, "bool": 1, "pred": 1, "complex": 8, "bf16": 2,
    "quint": 1, "object": 8,
}  # fmt: skip


# Keras tells the inputs of the layer that failed: those of an operation by element are as large as its result.
_KERAS_INPUT = Pattern(r"\b\w+=tf\.Tensor\(shape=\((\d+(?:,\s*\d+)*),?\),\s*dtype=(\w+)")
_BY_ELEMENT = Pattern(
    r"\[Op:(?:Sigmoid|Relu6?|Tanh|Elu|Selu|LeakyRelu|Softplus|Softsign|Softmax|Exp|Erfc?|Square|Sqrt|Rsqrt|Neg|Mul|AddV2|Sub"
    r"|RealDiv|Maximum|Minimum|Identity)\]"
)


def shape(text: str) -> Shape | None:
    """The tensor that a message names. TensorFlow before 1.5 named its type in the node only."""
    if match := _SHAPE.search(text):
        return Shape(_axes(match[1]), match[2] or _node_type(text))
    if match := _CONSTANT.search(text):
        return Shape(_axes(match[2]), match[1])
    if match := _XLA_SHAPE.search(text):
        return Shape(_axes(match[2]), match[1])
    if _BY_ELEMENT.search(text) and (match := _KERAS_INPUT.search(text)):
        return Shape(_axes(match[1]), match[2])
    return None


def _node_type(text: str) -> str | None:
    """The type of an operation's result, as TensorFlow 1 writes it into the node."""
    node = _NODE.search(text)
    found = [match[1].lower() for pattern in _NODE_TYPE if node and (match := pattern.search(node[1]))]
    return found[0] if found else None


def size_of(dtype: str) -> int:
    """Bytes of one element of this type; 4 where it is not known."""
    name = dtype.lower()
    if name in _SIZES:
        return _SIZES[name]
    bits = "".join(filter(str.isdigit, name))
    if name[:1] in "us" and name[1:] == bits and dtype[:1] in "US" and len(bits) < 10:
        return int(bits) * (4 if dtype[0] == "U" else 1)  # NumPy's strings
    return int(bits) // 8 if bits and len(bits) < 4 and int(bits) >= 8 else 4


def bytes_of(tensor: Shape) -> int | None:
    """Bytes of a tensor whose type is known."""
    return prod(tensor.axes) * size_of(tensor.dtype) if tensor.dtype else None


# Exact counts come before rounded ones. "rounded to" is the allocator's own rounding, to 256 bytes.
_AMOUNT = r"(\d[\d.]*\s?(?:bytes|[KMGTP]?i?B|[KMGT])\b)"
_EXACT = (
    Pattern(r"\brounded\s+to\s+(\d+)"),
    Pattern(r"\brequest\s+for\s+[\d.]+\s?[KMGTP]?i?B\s*\((\d+)\s?B"),
    Pattern(r"\ballocat(?:e|ing)\s+(\d{2,})\s*bytes", re.IGNORECASE),
    Pattern(r"\ballocat(?:e|ing)\s+[\d.]+\s?[KMGTP]?i?B?\s*\((\d+)\s+bytes", re.IGNORECASE),
    Pattern(r"\bfailed\s+to\s+alloc\s+(\d+)\s+bytes", re.IGNORECASE),
    Pattern(r"\bAllocation\s+\(size=(\d+)\)\s+would\s+exceed"),
    Pattern(r"\bexceeded\s+maximum\s+protobuf\s+size\s+of\s+2GB:\s*(\d+)"),
    Pattern(r"\blarger\s+than\s+max\s*\((\d+)\s+vs"),
    Pattern(r"\bexceeds\s+maximum\s+size\s+\d+:\s*(\d+)"),
    Pattern(r"\bAllocation\s+of\s+(\d+)\s+exceeds"),
    Pattern(r"\btried\s+to\s+allocate\s+(\d{2,})\b(?!\.)"),
    Pattern(r"\btcmalloc: large alloc (\d{5,})\b"),
)
_ROUNDED = (
    Pattern(rf"\b(?:allocat(?:e|ing)|request\s+for|reserve)\s+(?:about\s+)?{_AMOUNT}", re.IGNORECASE),
    Pattern(rf"\bspace\s+[hvs]mem\.\s+Used\s+{_AMOUNT}\s+of\b"),
    Pattern(rf"\bUsed\s+{_AMOUNT}\s+of\s+[\d.]+\s?[KMGTP]?i?B?\s+(?:hbm|vmem|smem)"),
    Pattern(r"\ballocate\s+(\d{4,})\b(?!\.)", re.IGNORECASE),
)


def wanted(text: str) -> int | None:
    """How many bytes were asked for: the tensor that is named, or the number that is said."""
    tensor = shape(text)
    size = bytes_of(tensor) if tensor else None
    if size is not None and not _XLA_SHAPE.search(text):
        return size
    for patterns in (_EXACT, _ROUNDED):
        found = [match for pattern in patterns if (match := pattern.search(text))]
        if found:
            return amount(min(found, key=lambda match: match.start())[1])
    return size  # XLA names buffers beside what it asked for


def amount(words: str) -> int | None:
    """A number of bytes as runtimes word it: ``2.5GiB``, ``10.09G``, ``146 MiB``, ``31360000 bytes``."""
    words = words.strip().rstrip(".,;").replace("bytes", "")
    number = re.match(r"[\d.]+", words)
    if number is None:
        return None
    unit = words[number.end() :].strip()
    try:
        return parse_bytes(f"{number[0].rstrip('.')}{unit}")
    except UnitError:
        return None


def _axes(words: str) -> tuple[int, ...]:
    return tuple(int(axis) for axis in words.split(",") if len(axis) < 20)
