"""Bytes in, words out: the only place where byte counts are parsed or printed.

``KiB``, ``MiB``, ``GiB`` and the bare letters ``K``, ``M``, ``G`` count in 1024; ``KB``, ``MB``, ``GB``
count in 1000. Case does not matter, a space before the unit is fine.
"""

from __future__ import annotations

import re

from fitroom.errors import UnitError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_PREFIXES = "kmgtp"
_SIZES: dict[str, int] = {"": 1, "b": 1}
for _power, _letter in enumerate(_PREFIXES, start=1):
    _SIZES[_letter] = _SIZES[_letter + "ib"] = 1024**_power
    _SIZES[_letter + "b"] = 1000**_power

_TEXT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_LARGEST = 2**63 - 1  # what an allocator can be told


def parse_bytes(value: int | str) -> int:
    """The number of bytes that `value` means; a fraction of a byte is dropped.

    Example:
        >>> parse_bytes("8G"), parse_bytes("1.5GiB"), parse_bytes("8GB")
        (8589934592, 1610612736, 8000000000)

    Raises:
        UnitError: if it is negative, not a number, not a known unit, or larger than 2**63 - 1.
    """
    count = _count(value)
    if count is None or not 0 <= count <= _LARGEST:
        raise UnitError(
            "Cannot read a number of bytes",
            received=repr(value)[:60],
            expected='a whole number of bytes, or text such as "8GiB", "512 MiB", "1.5G" or "8GB"',
        )
    return count


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or len(value) > 40:
        return None
    match = _TEXT.fullmatch(value)
    if match is None or match[2].lower() not in _SIZES:
        return None
    whole, _, decimals = match[1].partition(".")
    scale: int = 10 ** len(decimals)
    return int(whole + decimals) * _SIZES[match[2].lower()] // scale


def format_bytes(count: int) -> str:
    """`count` in the largest binary unit that keeps it at or above 1, to three digits or so.

    Example:
        >>> format_bytes(0), format_bytes(1536), format_bytes(11 * GIB)
        ('0 B', '1.5 KiB', '11 GiB')
    """
    sign, size = ("-", -count) if count < 0 else ("", count)
    if size < KIB:
        return f"{sign}{size} B"
    for power, letter in enumerate(_PREFIXES, start=1):
        number = size / 1024**power
        # 1023.95 would print as 1024.0 of this unit: that is 1.0 of the next.
        if number < 1023.95 or letter == _PREFIXES[-1]:
            digits = 0 if number >= 99.95 else 1
            text = f"{number:.{digits}f}"
            return f"{sign}{text.removesuffix('.0')} {letter.upper()}iB"
    raise AssertionError("the last prefix always returns")
