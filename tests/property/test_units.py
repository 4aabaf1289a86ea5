from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitroom.errors import UnitError
from fitroom.units import GIB, KIB, MIB, format_bytes, parse_bytes


@given(st.integers(0, 2**63 - 1))
def test_a_whole_number_is_itself(count: int) -> None:
    assert parse_bytes(count) == count
    assert parse_bytes(str(count)) == count


@given(st.integers(0, 2**60))
@example(1023)
@example(1024**2 - 1)
@example(1024**3 - 1)
def test_what_is_printed_can_be_read_back(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.051)


@given(st.integers(0, 2**60), st.integers(0, 2**60))
def test_larger_never_prints_as_smaller(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert parse_bytes(format_bytes(low)) <= parse_bytes(format_bytes(high))


@given(st.text())
def test_any_text_is_read_or_refused_with_what_was_expected(text: str) -> None:
    try:
        assert parse_bytes(text) >= 0
    except UnitError as error:
        assert "Received:" in str(error)
        assert "Expected:" in str(error)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8G", 8 * GIB),
        ("8GiB", 8 * GIB),
        ("8 gib", 8 * GIB),
        ("8GB", 8 * 10**9),
        ("1.5GiB", 3 * GIB // 2),
        (".5k", 512),
        ("512 MiB", 512 * MIB),
        ("100MB", 10**8),
        ("7B", 7),
        ("0.3KiB", 307),
        ("1KB", 1000),
        ("1K", KIB),
    ],
)
def test_units_people_write(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "GiB",
        "-1",
        "1e9",
        "8 gallons",
        "1.2.3G",
        "nan",
        "inf",
        "١G",
        "9" * 50,
        "99999P",
        True,
        1.5,
        None,
        -1,
    ],
)
def test_nonsense_is_refused(nonsense: object) -> None:
    with pytest.raises(UnitError, match=r"Received: .* Expected: "):
        parse_bytes(nonsense)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1024**2 - 1, "1 MiB"),
        (1536 * MIB, "1.5 GiB"),
        (-MIB, "-1 MiB"),
    ],
)
def test_printing(count: int, text: str) -> None:
    assert format_bytes(count) == text
