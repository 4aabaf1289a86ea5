"""Plans as they are written, and what has to be allowed."""

from __future__ import annotations

import pytest

from fitroom.errors import UsageError
from fitroom.remedies import INEXACT, REMEDIES, check_allowed, read_allowed, read_plan, turns


def test_a_plan_is_read_as_it_is_written() -> None:
    written = "micro_batch=4, recompute=low, eval_batch=16, float32_data, xla=off, mixed_precision=bfloat16"
    found = read_plan(written)
    assert str(found) == written
    assert found.setting("eval_batch") == 16
    assert turns(found) == {"xla": "off", "precision": "bfloat16"}
    assert read_plan(found) is found


@pytest.mark.parametrize("nothing", [None, "", " plain "])
def test_no_plan_is_plain_training(nothing: str | None) -> None:
    assert read_plan(nothing).remedies == ()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("magic", "micro_batch=N"),
        ("micro_batch", "micro_batch=N"),
        ("micro_batch=0", "micro_batch=N"),
        ("eval_batch=-1", "eval_batch=N"),
        ("float32_data=yes", "float32_data"),
        ("xla", "xla=on or xla=off"),
        ("allocator=best", "cuda_malloc_async"),
        ("mixed_precision=float8", "bfloat16"),
        ("lean_optimizer=adam", "lion"),
        ("micro_batch=2, micro_batch=4", "each remedy once"),
    ],
)
def test_a_plan_that_makes_no_sense_says_what_would(wrong: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read_plan(wrong)


@pytest.mark.parametrize("name", [name for name in INEXACT if name != "micro_batch"])
def test_what_changes_the_math_is_refused_unless_it_is_allowed_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"--allow {name}"):
        check_allowed(read_plan(name), frozenset())
    check_allowed(read_plan(name), read_allowed(name))


@pytest.mark.parametrize("module", REMEDIES, ids=lambda module: module.NAME)
def test_every_remedy_tells_what_a_user_wants_to_know(module: object) -> None:
    page = module.PAGE  # type: ignore[attr-defined]
    assert page.code == module.NAME  # type: ignore[attr-defined]
    for question in ("What it does", "Does it keep the math?", "What it costs"):
        assert question in page.text, f"{page.code} does not say: {question}"
