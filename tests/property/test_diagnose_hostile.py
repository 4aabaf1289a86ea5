"""Whatever is thrown at it: an answer, in linear time, with bounded memory, and nothing that a terminal would obey."""

# ruff: noqa: E501  (the lines of logs are long)

from __future__ import annotations

import io
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitroom
from fitroom.core import Diagnosis
from fitroom.core.noun import to_dict
from fitroom.diagnosers import diagnosing, sieve
from fitroom.diagnosers.cleaning import cleaned, printable

OOM = "OOM when allocating tensor with shape[64,8] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# Pieces of real messages in any order, cut anywhere, with anything in between.
PIECES = [
    OOM, OOM[:40], "Limit:  ", "InUse:  ", "99999999999999999999999999", "shape[", "1,2,3", "]", "\n", " ", "[[node ", "{{node a/b}}",
    "Allocator (", ") ran out of memory trying to allocate ", "not a failure", "rounded to 0", "Killed", "\x1b[31m", "\x1b]0;t\x07",
    "<b>", "&lt;", "\\n", "\\u001b[0m", "\r", "\x08", "Free  at 7f of size 5", "2 Chunks of size 9 totalling", "Sum Total of in-use "
    "chunks: 1.0GiB", "CUDA out of memory. Tried to allocate 2 GiB", " total capacity; 0 bytes free;", "batch_size=0", "Epoch 1/2",
    "Unable to allocate 1 GiB for an array with shape (0, 0) and data type <U9", "No space left on device", "exit code 137",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=30).map("".join)


def check(found: Diagnosis) -> None:
    """It can be stored, read back and printed."""
    assert Diagnosis.from_json(found.to_json()) == found
    assert not OBEYED.search(json.dumps(to_dict(found), ensure_ascii=False))
    assert not OBEYED.search(repr(found).replace("\n", ""))
    assert 0 <= found.confidence <= 1


@given(texts)
def test_any_mixture_of_messages_is_answered(text: str) -> None:
    check(fitroom.diagnose(text))


@given(st.binary(max_size=2000))
def test_any_bytes_are_answered(content: bytes) -> None:
    check(fitroom.diagnose(content))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_failure_is_found_in_any_dirt(before: bytes, after: bytes) -> None:
    dirt = before.replace(b"\xff\xfe", b"").replace(b"\xfe\xff", b"")
    found = fitroom.diagnose(b"#" + dirt + b"\nRESOURCE_EXHAUSTED: " + OOM.encode() + b"\n" + after)
    assert found.ran_out


@given(st.text())
def test_what_is_cleaned_holds_no_control_characters(text: str) -> None:
    for line in cleaned(text.encode("utf-8", "replace")):
        assert not OBEYED.search(line)
    assert not OBEYED.search(printable(text))


@given(
    st.lists(st.sampled_from(["", "Traceback (most recent call last):", "x" * 30, OOM, "step 3"]), max_size=60),
    st.sampled_from([1, 7, 64, 1000]),
    st.sampled_from([(20, 30, 0, 0), (60, 300, 10, 10), (300, 30, 100, 5)]),
)
def test_finds_do_not_depend_on_how_a_log_is_cut_into_pieces(
    words: list[str], piece: int, sizes: tuple[int, int, int, int]
) -> None:
    there = [f"line {number} {word}" for number, word in enumerate(words, 1)]
    names = ("PIECE", "_BEFORE", "_AFTER", "_HEAD", "_TAIL")
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(names, (piece, *sizes), strict=True):
            patch.setattr(sieve, name, size)
        found = list(sieve.worth_reading(io.BytesIO("\n".join(there).encode())))
    numbers = [line.number for line in found]
    assert numbers == sorted(set(numbers))
    assert all(line.text == there[line.number - 1] for line in found)
    assert {number for number, word in enumerate(words, 1) if "Trace" in word or word == OOM} <= set(numbers)


class Endless:
    """A stream that repeats something until it has given so many bytes, and holds none of them."""

    def __init__(self, unit: bytes, size: int, last: bytes = b"") -> None:
        self._unit, self._left, self._last = unit, size, last

    def read(self, size: int, /) -> bytes:
        if self._left <= 0:
            last, self._last = self._last, b""
            return last
        count = min(size, self._left)
        self._left -= count
        return (self._unit * (count // len(self._unit) + 1))[:count]


HOSTILE = {
    "one line": b"a",
    "one line of needles": b"out of memory ",
    "one line of messages": OOM.encode() + b" ",
    "failures": OOM.encode() + b"\n",
    "failures, each with progress": b"Epoch 1/2\nloss: 0.3\n" + OOM.encode() + b"\n",
    "zeros": b"\x00",
    "newlines": b"\n",
    "invalid utf-8": b"\xff\xfe\xc3\x28 out of memory\n",
    "escapes": b"\x1b]0;\x1b[31m\x1b\x9b",
    "html": b"<pre><b>out of memory</b>&lt;&amp;",
    "brackets": b"[[node {{node [[",
    "tracebacks": b"Traceback (most recent call last):\n",
    "harmless": b"Allocator (GPU_0_bfc) ran out of memory trying to allocate 1MiB ",
    "free blocks": b"I bfc] Free  at 7f of size 256 next 1\n",
    "spaces": b"OOM when      ",
    "shapes": b"shape[1,1,1,1,",
}


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, id=name, marks=[pytest.mark.chaos] * (name == "one line of messages"))
        for name, unit in HOSTILE.items()
    ],
)
def test_what_is_repeated_without_end_is_answered(unit: bytes) -> None:
    # A way that takes quadratic time would need hours for this.
    check(diagnosing.of_stream(Endless(unit, 4 << 20, b"\nRESOURCE_EXHAUSTED: " + OOM.encode())))


@pytest.mark.chaos
@pytest.mark.parametrize(
    "name", ["one line", "one line of needles", "one line of messages", "zeros", "escapes", "html"]
)
def test_a_line_of_500_mb_is_answered(name: str) -> None:
    check(diagnosing.of_stream(Endless(HOSTILE[name], 500 << 20, b"\nRESOURCE_EXHAUSTED: " + OOM.encode())))


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_memory_is_bounded_whatever_the_size(unit: bytes) -> None:
    tracemalloc.start()
    try:
        diagnosing.of_stream(Endless(unit, 2 << 20))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_lines_of_a_long_log_keep_their_numbers() -> None:
    noise = b"".join(b"step %d of a healthy training, nothing to see\n" % n for n in range(40_000))
    found = fitroom.diagnose(noise + OOM.encode() + b"\n" + noise)
    assert [one.line for one in found.evidence] == [40_001]
